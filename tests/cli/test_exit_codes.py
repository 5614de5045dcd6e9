"""The numbers are a contract."""

from typing import get_args

import pytest

from turnwright.cli.exit_codes import ExitCode, of_error, of_reason
from turnwright.schema import errors
from turnwright.schema.verdicts import StopReason

REASONS: dict[StopReason, int] = {
    "stop": 0,
    "length": 1,
    "max-steps": 53,
    "idle-timeout": 57,
    "step-timeout": 57,
    "wall-timeout": 57,
    "token-budget": 56,
    "cost-budget": 56,
    "cancelled": 130,
    "provider-error": 59,
    "guard-stop": 60,
    "needs-user": 58,
    "refused": 1,
    "internal-error": 1,
}


def test_every_reason_has_its_code() -> None:
    assert set(REASONS) == set(get_args(StopReason))
    assert {reason: of_reason(reason) for reason in REASONS} == REASONS


def test_a_refused_key_is_not_an_outage() -> None:
    assert of_reason("provider-error", key_refused=True) == 41
    assert of_reason("stop", key_refused=True) == 0


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UsageError, 2),
        (errors.InputError, 42),
        (errors.ConfigError, 52),
        (errors.CredentialsError, 41),
        (errors.ProviderError, 59),
        (errors.JournalHeld, 1),
        (errors.JournalUnwritable, 1),
        (errors.MachineError, 1),
        (errors.ToolFailure, 54),
    ],
)
def test_every_error_has_its_code(kind: type[errors.TurnwrightError], code: int) -> None:
    assert of_error(kind("it failed")) == code


def test_the_table() -> None:
    assert sorted(code.value for code in ExitCode) == [0, 1, 2, 41, 42, 44, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 130]
