"""What is sent to a model, before any dialect: stable segments first, history after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnwright.schema.messages import Message
from turnwright.schema.verdicts import Effect


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is offered. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = "reads"
    concurrent: bool = False
    timeout_s: float | None = None
    """The tool's own limit at the registry; None where the tool bounds itself (bash)."""


class Section(msgspec.Struct, frozen=True):
    """A named piece of the system prompt."""

    name: str
    text: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model.

    `messages` only ever grows within one `lineage`: whoever encodes may keep the bytes of what it has already seen
    under that name and encode only the rest (C2). Anything else than growth must come with another lineage.
    """

    lineage: str
    system: tuple[Section, ...]
    messages: Sequence[Message]
    tail: tuple[Message, ...] = ()
    """Said behind the messages in this request alone."""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    json_object: bool = False
    """Ask for an answer that is one JSON object, where the dialect can (JSON mode)."""
    reasoning: bool | None = None
    """Ask the model to think before it answers, or not to. None: as the model does by itself."""
    tools_behind: bool = False
    """Whoever must explain tools in words does so behind the conversation, and not in the system prompt."""
