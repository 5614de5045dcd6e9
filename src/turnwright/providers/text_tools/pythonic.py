"""`pythonic`: `[read(path="a.py"), bash(command="ls")]`, as Llama models were taught."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from turnwright.providers.text_tools.held import Held, Read, Scan
from turnwright.providers.text_tools.literals import NotLiteral, calls_in
from turnwright.providers.text_tools.notation import UNNAMED, Opening, Opens, call, listing, object_of
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Part, Text
from turnwright.schema.prompt import ToolSpec

_OPENS = re.compile(r" {0,3}\[[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\(")
_MAY_OPEN = re.compile(r" {0,3}(?:\[[ \t]*(?:([A-Za-z_][A-Za-z0-9_-]*)([ \t]*))?)?")
_FIRST_NAME = re.compile(r" {0,3}\[[ \t]*([A-Za-z_][A-Za-z0-9_-]*)")
_OUTSIDE = re.compile(r"[\[\](){}'\"]")
_INSIDE = {quote: re.compile(rf"\\|{quote}") for quote in ("'", '"', "'''", '"""')}
_BLANKS = re.compile(r"[ \t\r]*")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SECTION = """\
You may call these tools. Each line is a tool, with the JSON Schema of its arguments:
<tools>
{tools}
</tools>
To call them, write a list of calls in the syntax of Python, at the beginning of a line, with nothing behind it and \
not inside a code fence. Arguments are literals and have names:
[first_tool(path="a.py", lines=[1, 2]), second_tool(all=True)]"""


class _Mode(msgspec.Struct, frozen=True):
    depth: int = 2
    """A block begins inside of the list and the first call."""
    quote: str = ""
    """What ends the string that is open."""


class Pythonic:
    wants_line_above = False

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tuple(tools)
        self._parameters = {tool.name: tuple(tool.parameters.get("properties", ())) for tool in tools}

    def opens(self, line: str, above: str, index: int) -> Opens:
        opened = _OPENS.match(line)
        if opened is not None:
            if opened[1] not in self._parameters:
                return "no"
            used = opened.end()
            block = Held(syntax=self, index=index, mode=_Mode(), spoken=(None, line[:used]), size=used)
            return Opening(block, (), used)
        may = _MAY_OPEN.fullmatch(line)
        if may is None:
            return "no"
        name, is_whole = may[1] or "", bool(may[2])
        known = name in self._parameters if is_whole else any(each.startswith(name) for each in self._parameters)
        return "maybe" if known else "no"

    def section(self, listed: Sequence[ToolSpec]) -> str:
        return _SECTION.format(tools=listing(listed))

    def scan(self, mode: _Mode, text: str, at: int, base: int) -> Scan:
        """Brackets outside of strings decide. A raw newline in a string is forgiven: models write it."""
        depth, quote = mode.depth, mode.quote
        while depth:
            token = (_INSIDE[quote] if quote else _OUTSIDE).search(text, at)
            if token is None:
                stop = len(text) - _beginning_of_quote(text, at, quote)
                return Scan(_Mode(depth, quote), stop, "more")
            behind = token.end()
            mark = token[0]
            if quote:
                if mark == "\\":
                    if behind == len(text):
                        return Scan(_Mode(depth, quote), token.start(), "more")
                    behind += 1
                else:
                    quote = ""
            elif mark in "'\"":
                opened = text[token.start() : token.start() + 3]
                if len(opened) < 3 and opened == mark * len(opened):
                    return Scan(_Mode(depth, quote), token.start(), "more")
                quote = mark * 3 if opened == mark * 3 else mark
                behind = token.start() + len(quote)
            else:
                depth += 1 if mark in "[({" else -1
            at = behind
        return _behind(text, at)

    def read(self, block: str, mode: _Mode, index: int) -> Read:
        try:
            said = calls_in(block, self._parameters)
        except NotLiteral:
            return Read(call(index, self.name_in(block), block), 1)
        parts: list[Part] = []
        calls = 0
        for one in said:
            if one.name in self._parameters:
                parts += call(index + calls, one.name, one.arguments)
                calls += 1
            else:
                parts.append(Text(block[one.start : one.stop] + "\n"))
        return Read(parts, calls)

    def name_in(self, head: str) -> str:
        found = _FIRST_NAME.match(head)
        return found[1] if found else UNNAMED


def write_pythonic(call: ToolCall) -> str | None:
    if call.raw:
        return call.raw
    arguments = object_of(call)
    if not all(_KEY.fullmatch(key) for key in arguments):
        return None
    given = ", ".join(f"{key}={_literal(value)}" for key, value in arguments.items())
    return f"[{call.name}({given})]"


def _literal(value: object) -> str:
    match value:
        case bool() | None:
            return repr(value)
        case dict():
            fields = ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in value.items())
            return f"{{{fields}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            return msgspec.json.encode(value).decode()


def _behind(text: str, at: int) -> Scan:
    """Behind the last bracket: the line must end."""
    blanks = _BLANKS.match(text, at)
    at = blanks.end() if blanks else at
    if at == len(text):
        return Scan(_Mode(0), at, "more")
    return Scan(_Mode(0), at + 1, "call") if text[at] == "\n" else Scan(_Mode(0), at, "prose")


def _beginning_of_quote(text: str, at: int, quote: str) -> int:
    """How many characters at the end could be the beginning of the triple quote that is awaited."""
    if len(quote) < 3:
        return 0
    tail = text[max(at, len(text) - 2) :]
    return len(tail) - len(tail.rstrip(quote[0]))
