"""Replies read in a text dialect, as the kernel would see them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from turnwright.kernel.assemble import Assembly
from turnwright.providers.text_tools.dialects import bound
from turnwright.providers.text_tools.scan import begin, end, step
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Part, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.settings import TextDialect
from turnwright.tools.registry import FunctionTool
from turnwright.tools.standard import standard_tools

DIALECTS: tuple[TextDialect, ...] = (
    "xml-json",
    "bash-block",
    "search-replace",
    "unified-diff",
    "apply-patch",
    "pythonic",
)

TOOLS: tuple[ToolSpec, ...] = tuple(FunctionTool.of(tool).spec for tool in standard_tools())


def tools(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(spec for spec in TOOLS if spec.name in names)


def cut(text: str, cuts: Iterable[int]) -> Iterator[str]:
    points = sorted({0, len(text), *(point for point in cuts if point < len(text))})
    yield from (text[start:stop] for start, stop in itertools.pairwise(points))


def parts_of(dialects: Sequence[TextDialect], pieces: Iterable[str], offered: Sequence[ToolSpec] = TOOLS) -> list[Part]:
    state = begin(bound(dialects, offered).notations)
    parts: list[Part] = []
    for piece in pieces:
        state, made = step(state, piece)
        parts += made
    return parts + end(state)


def joined(parts: Iterable[Part]) -> list[Part]:
    """Neighbouring fragments of one thing made one: what no cutting may change."""
    whole: list[Part] = []
    for part in parts:
        last = whole[-1] if whole else None
        match part, last:
            case Text(text=text), Text(text=before):
                whole[-1] = Text(before + text)
            case ToolCallArguments(fragment=more), ToolCallArguments(fragment=before) if part.index == last.index:
                whole[-1] = ToolCallArguments(index=part.index, fragment=before + more)
            case _:
                whole.append(part)
    return whole


def reply(
    dialects: Sequence[TextDialect], text: str, offered: Sequence[ToolSpec] = TOOLS
) -> tuple[str, list[ToolCall]]:
    """The text and the calls of the assembled message."""
    numbers = itertools.count(1)
    assembly = Assembly(new_id=lambda: f"c{next(numbers)}", offered={tool.name for tool in offered})
    assembly.add(parts_of(dialects, [text], offered))
    message = assembly.reply().message
    return message.text, list(message.calls)


def said(dialects: Sequence[TextDialect], text: str, offered: Sequence[ToolSpec] = TOOLS) -> tuple[str, list[Any]]:
    """Calls as `(name, arguments)`, or `(name, raw)` where they may not be run."""
    words, calls = reply(dialects, text, offered)
    return words, [(call.name, call.raw if call.problem else json.loads(call.arguments)) for call in calls]


def is_closed(parts: Sequence[Part]) -> bool:
    started = sum(isinstance(part, ToolCallStart) for part in parts)
    return started == sum(isinstance(part, ToolCallEnd) for part in parts)
