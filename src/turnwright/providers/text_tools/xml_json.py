"""`xml-json`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as Hermes and Qwen models were taught."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.providers.text_tools.held import HEAD_CHARS, Held, Read, Scan
from turnwright.providers.text_tools.notation import BLANKS, UNNAMED, Opening, Opens, call, listing
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Part, Text
from turnwright.schema.prompt import ToolSpec

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_OPENS = re.compile(r"( {0,3}<tool_call>[ \t\r]*)(\{|\n)")
_OUTSIDE = re.compile(r'"|</tool_call>')
_INSIDE = re.compile(r'["\\\n]|</tool_call>')
_LINE_ENDS = re.compile(r"[ \t\r]{0,64}(\n)?")
_BLANKS = re.compile(r"[ \t\r]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')

_SECTION = """\
You may call these tools. Each line is a tool, with the JSON Schema of its arguments:
<tools>
{tools}
</tools>
To call one, write a block of three lines, at the beginning of a line and not inside a code fence:
<tool_call>
{{"name": <its name>, "arguments": <a JSON object that fits its schema>}}
</tool_call>
Write one block for each call, as many as you need at once."""


_Bodies: TypeAlias = "tuple[_Bodies, tuple[int, int]] | None"


class _Mode(msgspec.Struct, frozen=True):
    start: int
    """Where the present body begins in the block."""
    in_string: bool = False
    closed: bool = False
    """Behind a closing sentinel: the line must end here, or another call begin."""
    bodies: _Bodies = None
    """Where those that are closed begin and end, newest first."""


class _Found(msgspec.Struct, frozen=True):
    mode: _Mode
    at: int
    found: Literal["on", "more", "call", "prose"]


class _Said(msgspec.Struct):
    name: Any = None
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Said).decode


class XmlJson:
    wants_line_above = False

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tuple(tools)
        self._names = frozenset(tool.name for tool in tools)

    def opens(self, line: str, above: str, index: int) -> Opens:
        opened = _OPENS.match(line)
        if opened is not None:
            used = len(opened[1]) + (opened[2] == "\n")
            spoken = line[:used]
            return Opening(Held(syntax=self, index=index, mode=_Mode(used), spoken=(None, spoken), size=used), (), used)
        rest = line.lstrip(" ")
        may = OPEN.startswith(rest) or (rest.startswith(OPEN) and not rest[len(OPEN) :].strip(BLANKS))
        return "maybe" if may and len(line) - len(rest) <= 3 else "no"

    def section(self, listed: Sequence[ToolSpec]) -> str:
        return _SECTION.format(tools=listing(listed))

    def scan(self, mode: _Mode, text: str, at: int, base: int) -> Scan:
        """Strings of JSON never hold a raw newline. So a closing sentinel counts outside of strings, and at the end of
        any line: a quote too many must not swallow the rest of the reply."""
        while True:
            found = _behind(mode, text, at, base) if mode.closed else _within(mode, text, at, base)
            if found.found != "on":
                return Scan(found.mode, found.at, found.found)
            mode, at = found.mode, found.at

    def read(self, block: str, mode: _Mode, index: int) -> Read:
        parts: list[Part] = []
        calls = said = 0
        bodies = _listed(mode.bodies)
        for number, (start, stop) in enumerate(bodies, 1):
            of = self._call(block[start:stop], index + calls)
            upto = len(block) if number == len(bodies) else stop + len(CLOSE)
            parts += of or [Text(block[said:upto])]
            calls += bool(of)
            said = upto
        return Read(parts, calls)

    def name_in(self, head: str) -> str:
        found = _NAME.search(head)
        return found[1] if found and found[1] else UNNAMED

    def _call(self, body: str, index: int) -> list[Part]:
        """Nothing where it names a tool that is not offered. What cannot be read is a call that does not parse."""
        try:
            said = _decode(body)
            arguments = _arguments(bytes(said.arguments) or bytes(said.parameters))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            name = self.name_in(body[:HEAD_CHARS])
            return call(index, name, body) if name == UNNAMED or name in self._names else []
        if not isinstance(said.name, str) or not said.name:
            return call(index, UNNAMED, body)
        if said.name not in self._names:
            return []
        return call(index, said.name, arguments)


def write_xml_json(call: ToolCall) -> str:
    if call.raw:
        return call.raw if call.raw.lstrip(" ").startswith(OPEN) else f"{OPEN}\n{call.raw.strip()}\n{CLOSE}"
    name = msgspec.json.encode(call.name).decode()
    return f'{OPEN}\n{{"name": {name}, "arguments": {call.arguments}}}\n{CLOSE}'


def _within(mode: _Mode, text: str, at: int, base: int) -> _Found:
    """In a body: up to its closing sentinel."""
    in_string = mode.in_string
    while True:
        token = (_INSIDE if in_string else _OUTSIDE).search(text, at)
        if token is None:
            stop = len(text) - _beginning_of_close(text, at)
            return _Found(_Mode(mode.start, in_string, False, mode.bodies), stop, "more")
        behind = token.end()
        match token[0]:
            case '"':
                in_string = not in_string
            case "\n":
                in_string = False
            case "\\":
                if behind == len(text):
                    return _Found(_Mode(mode.start, True, False, mode.bodies), token.start(), "more")
                behind += text[behind] != "\n"
            case _:
                line_end = _LINE_ENDS.match(text, behind)
                assert line_end is not None, "it matches nothing at all, too"
                if in_string and line_end.end() == len(text) and line_end[1] is None:
                    return _Found(_Mode(mode.start, True, False, mode.bodies), token.start(), "more")
                if not in_string or line_end[1] is not None:
                    body = mode.start, base + token.start()
                    return _Found(_Mode(mode.start, False, True, (mode.bodies, body)), behind, "on")
        at = behind


def _behind(mode: _Mode, text: str, at: int, base: int) -> _Found:
    """Behind a closing sentinel: the line must end, or another call begin."""
    blanks = _BLANKS.match(text, at)
    at = blanks.end() if blanks else at
    if at == len(text):
        return _Found(mode, at, "more")
    if text[at] == "\n":
        return _Found(mode, at + 1, "call")
    if text.startswith(OPEN, at):
        at += len(OPEN)
        return _Found(_Mode(base + at, bodies=mode.bodies), at, "on")
    return _Found(mode, at, "more" if OPEN.startswith(text[at : at + len(OPEN)]) else "prose")


def _listed(bodies: _Bodies) -> list[tuple[int, int]]:
    listed: list[tuple[int, int]] = []
    while bodies is not None:
        bodies, body = bodies
        listed.append(body)
    return listed[::-1]


def _arguments(raw: bytes) -> str:
    """As they were sent. Some models send them as text that holds JSON; none at all means an empty object."""
    if raw.startswith(b'"'):
        return str(msgspec.json.decode(raw))
    return "{}" if not raw or raw == b"null" else raw.decode()


def _beginning_of_close(text: str, at: int) -> int:
    """How many characters at the end could be the beginning of a closing sentinel."""
    for size in range(min(len(CLOSE) - 1, len(text) - at), 0, -1):
        if text.endswith(CLOSE[:size]):
            return size
    return 0
