"""What a process that ended says to its caller (U2). Scripts rely on these numbers: they never change their meaning."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, assert_never

from turnwright.schema.errors import (
    ConfigError,
    CredentialsError,
    InputError,
    ProviderError,
    SandboxError,
    ToolFailure,
    TurnwrightError,
    UntrustedFolder,
    UsageError,
)

if TYPE_CHECKING:
    from turnwright.schema.verdicts import StopReason


class ExitCode(IntEnum):
    """The docstring under each is its line in the reference."""

    DONE = 0
    """The task is done, or the command did what it was asked."""
    ERROR = 1
    """Anything without a number of its own: the journal, the machine, a reply that was cut or refused, a bug."""
    USAGE = 2
    """The command line is wrong."""
    CREDENTIALS = 41
    """There is no key, or the provider refused it."""
    INPUT = 42
    """A file, folder, id or prompt that was given is missing or bad."""
    SANDBOX = 44
    """The sandbox that was asked for is not to be had."""
    CONFIG = 52
    """The configuration is wrong: an unknown key, an impossible limit, a USD cap without a known price."""
    STEP_LIMIT = 53
    """The turn reached `loop.limits.max_steps`."""
    TOOL = 54
    """A tool that was called from the command line failed."""
    UNTRUSTED = 55
    """The folder is not trusted."""
    BUDGET = 56
    """A token or cost limit was reached."""
    TIMEOUT = 57
    """A time limit was reached."""
    PERMISSION = 58
    """Something needed a permission or an answer that nobody gave."""
    UNAVAILABLE = 59
    """The provider could not be reached, or failed and went on failing."""
    GUARD = 60
    """A guard ended the turn."""
    DIVERGED = 61
    """A replay was not identical to its recording."""
    CANCELLED = 130
    """The user stopped it."""


def of_error(error: TurnwrightError) -> ExitCode:
    match error:
        case UsageError():
            return ExitCode.USAGE
        case InputError():
            return ExitCode.INPUT
        case ConfigError():
            return ExitCode.CONFIG
        case UntrustedFolder():
            return ExitCode.UNTRUSTED
        case CredentialsError():
            return ExitCode.CREDENTIALS
        case ProviderError():
            return ExitCode.UNAVAILABLE
        case ToolFailure():
            return ExitCode.TOOL
        case SandboxError():
            return ExitCode.SANDBOX
        case _:
            return ExitCode.ERROR


def of_reason(reason: StopReason, *, key_refused: bool = False) -> ExitCode:
    """`key_refused`: the provider would not have the key, which the user can mend and no waiting will."""
    match reason:
        case "stop":
            return ExitCode.DONE
        case "length" | "refused" | "internal-error":
            return ExitCode.ERROR
        case "max-steps":
            return ExitCode.STEP_LIMIT
        case "idle-timeout" | "step-timeout" | "wall-timeout":
            return ExitCode.TIMEOUT
        case "token-budget" | "cost-budget":
            return ExitCode.BUDGET
        case "provider-error":
            return ExitCode.CREDENTIALS if key_refused else ExitCode.UNAVAILABLE
        case "guard-stop":
            return ExitCode.GUARD
        case "needs-user":
            return ExitCode.PERMISSION
        case "cancelled":
            return ExitCode.CANCELLED
        case _:
            assert_never(reason)
