"""Everything we raise on purpose.

    TurnwrightError
      UsageError           the command line was wrong
      InputError           a file, folder, id or prompt that was given is missing or bad
      ConfigError          the configuration is wrong: names the file, the key and the remedy
      UntrustedFolder      it was to be trusted, and is not
      CredentialsError     no key, or one that was refused
      ProviderError        the model service failed and the turn could not go on
      JournalError         we can no longer promise durability: stop, do not limp
        JournalHeld        another process writes this conversation
        JournalTooNew      written by a newer Turnwright
        JournalUnwritable  read-only, no permission, disk full, I/O error
        JournalDamaged     the file is not what was written
      MachineError         a command could not be started or the machine was lost
        SandboxError       a sandbox that was asked for is not to be had, or did not stand when it was needed
      ToolFailure          an answer for the model, not a fault

Bugs stay AssertionError or TypeError and crash visibly. Cancellation is nobody's error.
"""

from __future__ import annotations


class TurnwrightError(Exception):
    """`str(error)` is one sentence that names the thing and the place; `remedy` says what to do about it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message: str = self.args[0]
        return f"{message} {self.remedy}" if self.remedy else message


class UsageError(TurnwrightError): ...


class InputError(TurnwrightError): ...


class ConfigError(TurnwrightError): ...


class UntrustedFolder(TurnwrightError): ...


class CredentialsError(TurnwrightError): ...


class ProviderError(TurnwrightError): ...


class JournalError(TurnwrightError): ...


class JournalHeld(JournalError): ...


class JournalTooNew(JournalError): ...


class JournalUnwritable(JournalError): ...


class JournalDamaged(JournalError): ...


class MachineError(TurnwrightError): ...


class SandboxError(MachineError): ...


class ToolFailure(TurnwrightError):
    """Raised by a tool; the model reads `message` and whatever output came before it."""

    def __init__(self, message: str, *, output: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.output = output
