"""The text dialects by name: bound to what is offered, explained to the model, written back into a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from turnwright.providers.text_tools.fenced import bash_block, unified_diff, write_bash_block, write_unified_diff
from turnwright.providers.text_tools.notation import Notation, Writer
from turnwright.providers.text_tools.patches import (
    apply_patch,
    search_replace,
    write_apply_patch,
    write_search_replace,
)
from turnwright.providers.text_tools.pythonic import Pythonic, write_pythonic
from turnwright.providers.text_tools.xml_json import XmlJson, write_xml_json
from turnwright.schema.prompt import Section, ToolSpec
from turnwright.schema.settings import TextDialect

SECTION = "tools"

_HEAD = "# Tools\n\nYou call tools by writing text in your reply."
_TAIL = """\
End your reply after the last call. What the tools return is given to you in the next message, inside <tool_response> \
tags; never write such tags yourself. When the task is done, answer without a call."""


class Grammar(msgspec.Struct, frozen=True):
    """The dialects of a route, bound to the tools of a prompt."""

    notations: tuple[Notation, ...]
    section: Section | None
    """What the model is told; None where there is no tool that it could call."""


def bound(dialects: Sequence[TextDialect], tools: Sequence[ToolSpec]) -> Grammar:
    notations: list[Notation] = []
    pieces: list[str] = []
    listed: set[str] = set()
    for dialect in dialects:
        notation = _notation(dialect, tools)
        if notation is None:
            continue
        notations.append(notation)
        fresh = [tool for tool in notation.tools if tool.name not in listed]
        listed.update(tool.name for tool in fresh)
        if fresh:
            pieces.append(notation.section(fresh))
    text = "\n\n".join([_HEAD, *pieces, _TAIL])
    return Grammar(tuple(notations), Section(SECTION, text) if notations else None)


def writers(dialects: Sequence[TextDialect]) -> tuple[Writer, ...]:
    return tuple(map(_writer, dialects))


def _notation(dialect: TextDialect, tools: Sequence[ToolSpec]) -> Notation | None:
    match dialect:
        case "xml-json":
            return XmlJson(tools) if tools else None
        case "bash-block":
            return bash_block(tools)
        case "search-replace":
            return search_replace(tools)
        case "unified-diff":
            return unified_diff(tools)
        case "apply-patch":
            return apply_patch(tools)
        case "pythonic":
            return Pythonic(tools) if tools else None
        case _:
            assert_never(dialect)


def _writer(dialect: TextDialect) -> Writer:
    match dialect:
        case "xml-json":
            return write_xml_json
        case "bash-block":
            return write_bash_block
        case "search-replace":
            return write_search_replace
        case "unified-diff":
            return write_unified_diff
        case "apply-patch":
            return write_apply_patch
        case "pythonic":
            return write_pythonic
        case _:
            assert_never(dialect)
