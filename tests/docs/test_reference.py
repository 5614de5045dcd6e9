"""Nothing that a user can set, type, meet or import is left out of the reference."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest
from documents import ROOT

import turnwright
import turnwright.testing
from turnwright import Agent, Answer, Limits, standard_tools
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.registry import COMMANDS
from turnwright.journal.migrations import MIGRATIONS
from turnwright.providers.dialects import DIALECTS
from turnwright.providers.profiles import PROFILES
from turnwright.schema.facts import FACT_TYPES
from turnwright.schema.live import LiveEvent
from turnwright.schema.settings import Settings
from turnwright.schema.verdicts import ErrorKind, StallReason, StopReason, Verdict
from turnwright.tools.context import ToolContext

REFERENCE = ROOT / "docs" / "reference"
EXPLANATION = ROOT / "docs" / "explanation"


def page(*names: str) -> str:
    return Path(REFERENCE.parent, *names).read_text(encoding="utf-8")


def settings_of(kind: type[msgspec.Struct], prefix: str = "") -> list[str]:
    """Every key, with the names that a user gives left open."""
    keys: list[str] = []
    for field in msgspec.structs.fields(kind):
        own = field.name != getattr(kind, "rest", None)
        key = f"{prefix}.{field.name}".strip(".") if own else prefix
        below = [each for each in (field.type, *get_args(field.type)) if inspect.isclass(each)]
        structs = [each for each in below if issubclass(each, msgspec.Struct)]
        if get_origin(field.type) is tuple:
            structs = []  # members of a list have no keys of their own
        named = field.type not in structs
        keys += settings_of(structs[0], f"{key}.<name>" if named else key) if structs else [key]
    return keys


@pytest.mark.parametrize("key", settings_of(Settings))
def test_every_setting(key: str) -> None:
    assert re.search(rf"`{re.escape(key)}(\.<name>)?`", page("reference", "config.md"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command(command: str) -> None:
    assert f"## turnwright {command}\n" in page("reference", "cli.md")


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code(code: ExitCode) -> None:
    assert f"| {code.value} | {code.name.lower()} |" in page("reference", "exit-codes.md")


@pytest.mark.parametrize("name", [*FACT_TYPES, *(str(kind.__struct_config__.tag) for kind in get_args(LiveEvent))])
def test_every_fact_and_live_event(name: str) -> None:
    assert f"## `{name}`\n" in page("reference", "facts.md")


@pytest.mark.parametrize("table", re.findall(r"CREATE TABLE (\w+)", "".join(MIGRATIONS)))
def test_every_table_of_the_journal(table: str) -> None:
    assert f"`{table}`" in page("reference", "journal.md")


@pytest.mark.parametrize("tool", [each.__name__ for each in standard_tools()])
def test_every_tool(tool: str) -> None:
    assert f"| `{tool}` |" in page("reference", "tools.md")


@pytest.mark.parametrize(
    "word", [*get_args(Verdict), *get_args(StopReason), *get_args(StallReason), *get_args(ErrorKind)]
)
def test_every_verdict_and_reason_is_explained(word: str) -> None:
    assert f"`{word}`" in page("explanation", "verdicts-and-retries.md")


@pytest.mark.parametrize("name", [*PROFILES, *DIALECTS])
def test_every_provider_and_dialect(name: str) -> None:
    assert f"`{name}`" in page("how-to", "connect-a-provider.md")


@pytest.mark.parametrize(
    "name", [*(each for each in turnwright.__all__ if each[0] != "_"), *turnwright.testing.__all__]
)
def test_every_public_name(name: str) -> None:
    assert f"`{name}" in page("reference", "library.md")


def test_every_parameter_of_an_agent() -> None:
    told = page("reference", "library.md")
    methods = [getattr(Agent, name) for name in ("__init__", "run", "run_sync", "stream")]
    names = {name for method in methods for name in inspect.signature(method).parameters if name != "self"}
    assert {name for name in names if f"`{name}`" not in told} == set()


@pytest.mark.parametrize("kind", [Answer, Limits])
def test_every_field_of_what_is_public(kind: type[msgspec.Struct]) -> None:
    told = page("reference", "library.md")
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in told] == []


def test_everything_a_tool_may_use() -> None:
    told = page("reference", "library.md")
    public = [name for name, _ in inspect.getmembers(ToolContext) if not name.startswith("_")]
    assert [
        name for name in public if f"`{name}" not in told and name not in ("call", "states", "machine_or_none")
    ] == []


def test_every_word_of_the_design() -> None:
    told = page("explanation", "vocabulary.md")
    words = ["run", "conversation", "turn", "step", "attempt", "part", "fact", "live event", "verdict", "route"]
    words += ["guard", "machine", "view", "face"]
    assert [word for word in words if f"| **{word}** |" not in told] == []
