"""What a text dialect is made of: where a call opens, how an open one is read, how it is written back.

Everything here is pure. A notation is bound to the tools that it may call; whatever names another tool stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Part, ToolCallArguments, ToolCallEnd, ToolCallStart
from turnwright.schema.prompt import ToolSpec

LINE_CHARS_MAX = 512
"""A longer line is no sentinel: this bounds what is held back, and what deciding costs."""

UNNAMED = "unnamed"
"""The tool of a call that does not say which. Histories are also sent to hosts that refuse an empty name."""

BLANKS = " \t\r"

Pieces: TypeAlias = "tuple[Pieces, str] | None"
"""Text so far, newest first: a chain, so that one more piece costs the same after thousands."""


class Over(msgspec.Struct, frozen=True, kw_only=True):
    """A block has ended at offset `at` of the text it was given; `calls` is how many calls it was."""

    at: int
    calls: int = 1
    midline: bool = False
    """What follows is not at the beginning of a line: it was prose after all."""


class Block(Protocol):
    """An open call while it is read. Never changed: each piece of text gives the next one."""

    def feed(self, text: str, at: int) -> tuple[Block | Over, Sequence[Part]]:
        """Reads `text` from `at` on. How a text is cut into pieces must not change what comes out."""
        ...

    def end(self) -> Sequence[Part]:
        """The reply is over. A call that is not whole is left open, with arguments that do not parse."""
        ...


class Opening(msgspec.Struct, frozen=True):
    """A line that opens a call, and how many of its characters do so. Those behind them go to the block, and the
    first of them, or else the last used one, must have been what decided: nothing older is there to be read again."""

    block: Block
    parts: tuple[Part, ...]
    used: int
    takes_above: bool = False
    """The line above belongs to the call."""


Opens: TypeAlias = Literal["no", "maybe"] | Opening


class Notation(Protocol):
    """One dialect, bound to the tools that it can call; all of them are offered ones."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    @property
    def wants_line_above(self) -> bool:
        """Whether the line above a sentinel may belong to the call: one that looks like a path is then held back."""
        ...

    def opens(self, line: str, above: str, index: int) -> Opens:
        """Whether a line opens a call. It is the line's beginning until it ends in a newline."""
        ...

    def section(self, listed: Sequence[ToolSpec]) -> str:
        """How to call, for the model. `listed` are the tools that no dialect before it has listed."""
        ...


class Writer(Protocol):
    def __call__(self, call: ToolCall) -> str | None:
        """The call as the model would have written it, or did where it has `raw`; None where this dialect has no words
        for it."""
        ...


def joined(pieces: Pieces) -> str:
    texts: list[str] = []
    while pieces is not None:
        pieces, text = pieces
        texts.append(text)
    return "".join(reversed(texts))


def named(tools: Sequence[ToolSpec], name: str, *needs: str) -> ToolSpec | None:
    """The offered tool of that name, if it takes the arguments that the dialect has to give."""
    for tool in tools:
        if tool.name == name and all(need in tool.parameters.get("properties", {}) for need in needs):
            return tool
    return None


def escaped(text: str) -> str:
    """As it stands inside a JSON string."""
    try:
        return msgspec.json.encode(text).decode()[1:-1]
    except UnicodeEncodeError:
        import json  # takes lone surrogates, and only they need it

        return json.dumps(text)[1:-1]


def call(index: int, name: str, arguments: str) -> list[Part]:
    """A whole call."""
    return [
        ToolCallStart(index=index, name=name),
        ToolCallArguments(index=index, fragment=arguments),
        ToolCallEnd(index=index),
    ]


def begins(line: str, sentinel: str) -> bool:
    """Whether a line that begins so could still become the sentinel alone, blanks after it aside."""
    return sentinel.startswith(line) or (line.startswith(sentinel) and not line[len(sentinel) :].strip(BLANKS))


def is_line(line: str, sentinel: str) -> bool:
    return line.startswith(sentinel) and not line[len(sentinel) :].strip(BLANKS + "\n")


def object_of(call: ToolCall) -> dict[str, object]:
    """A call's arguments. Of one that was cut off in its last string, those that there are."""
    try:
        value = msgspec.json.decode(f'{call.raw}"}}' if call.raw else call.arguments)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def listing(tools: Sequence[ToolSpec]) -> str:
    """One line of JSON for each tool, in the order in which they are offered."""
    return "\n".join(
        msgspec.json.encode(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        ).decode()
        for tool in tools
    )
