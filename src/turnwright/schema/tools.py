"""What a tool call becomes before it runs and after it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.facts import Note
from turnwright.schema.ids import ConversationId
from turnwright.schema.messages import Image

PERMISSION_NOTES = frozenset({"permitted", "denied", "risk"})
"""Codes of the notes that a decision about a call leaves on record."""

NO_ANSWER = "nobody could answer whether it may run, which is a no"
"""What the model reads then, before what would help."""

Detail: TypeAlias = dict[str, str | int | float | bool | None]
"""Evidence by the tool, kept in `tool.ended`: exit_code, sha256_before, sha256_after, matcher."""


class Ready(msgspec.Struct, frozen=True):
    """A call whose arguments fit the tool's schema."""

    arguments: dict[str, Any]
    note: Note | None = None
    """What is to be on record before it runs: a permission that is not a matter of course, a risk."""


class Unfit(msgspec.Struct, frozen=True):
    """Why a call must not be executed, worded for the model."""

    problem: str
    note: Note | None = None
    """Which rule forbade it, for the record."""


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """A call that fits, and runs only if the user says so."""

    arguments: dict[str, Any]
    question: str
    choices: tuple[str, ...] = ("yes", "no")
    grants: tuple[str, ...] = ("yes",)
    """The answers that let it run. Any other is a no, and so is none."""
    segment: str = ""
    """The piece of the call that the question is about."""
    rule: str = ""
    """What asks for it."""
    remedy: str = ""
    """What would have let it run where nobody can answer."""
    settled: Callable[[], Ready | None] | None = None
    """Asked right before the question is put: what the user has said meanwhile may have answered it."""


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is put to the user: by a tool, or about one that needs a yes."""

    approval_id: str
    conversation_id: ConversationId
    text: str
    choices: tuple[str, ...] = ()
    segment: str = ""
    rule: str = ""
    tool: str = ""
    """The tool that asks whether it may run; empty where a tool asks something of its own."""


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """What a model wants a subagent to do, and with what."""

    brief: str
    title: str = ""
    tools: tuple[str, ...] = ()
    """Empty: all that whoever sends it has."""
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool has to show: its output and, if it failed, the error beside it."""

    output: str
    outcome: Literal["ok", "failed", "timeout"] = "ok"
    images: tuple[Image, ...] = ()
    original_bytes: int | None = None
    """Size of the output before it was shortened for the model."""
    detail: Detail = {}
