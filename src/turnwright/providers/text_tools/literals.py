"""Calls in the syntax of Python, read into JSON without Python's own parser: that one warns, and can be crashed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

DEPTH_MAX = 64

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)*)?(?:\.(?:\d+(?:_\d+)*)?)?(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?(?:0+|[1-9]\d{0,399})")
_QUOTE = re.compile(r"([rRuU]?)('''|\"\"\"|'|\")")
_STRINGS = {
    "'": re.compile(r"((?:[^\\']++|\\.)*+)'", re.DOTALL),
    '"': re.compile(r'((?:[^\\"]++|\\.)*+)"', re.DOTALL),
    "'''": re.compile(r"((?:[^\\']++|\\.|'(?!''))*+)'''", re.DOTALL),
    '"""': re.compile(r'((?:[^\\"]++|\\.|"(?!""))*+)"""', re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:(\r?\n)|([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}
_WORDS = {"True": "true", "true": "true", "False": "false", "false": "false", "None": "null", "null": "null"}


class NotLiteral(ValueError):
    """This is not a list of calls with literal arguments."""


class PythonCall(msgspec.Struct, frozen=True):
    """A call and where it stands in the text; `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    start: int
    stop: int


def calls_in(text: str, parameters: Mapping[str, Sequence[str]]) -> list[PythonCall]:
    """`[name(key=value, ...), ...]`. `parameters` names those of a tool in order, for arguments without a name."""
    reader = _Reader(text, parameters)
    calls: list[PythonCall] = []
    reader.take("[")
    while not reader.takes("]"):
        if calls:
            reader.take(",")
            if reader.takes("]"):
                break
        calls.append(reader.call())
    if not calls or reader.rest().strip():
        raise NotLiteral
    return calls


class _Reader:
    def __init__(self, text: str, parameters: Mapping[str, Sequence[str]]) -> None:
        self._text = text
        self._at = 0
        self._parameters = parameters

    def rest(self) -> str:
        return self._text[self._at :]

    def call(self) -> PythonCall:
        self._skip()
        start = self._at
        name = self._name()
        self.take("(")
        given: dict[str, str] = {}
        unnamed = iter(self._parameters.get(name, ()))
        while not self.takes(")"):
            if given:
                self.take(",")
                if self.takes(")"):
                    break
            key, value = self._argument()
            key = key or next(unnamed, "")
            if not key or key in given:
                raise NotLiteral
            given[key] = value
        fields = ",".join(f"{_json(key)}:{value}" for key, value in given.items())
        return PythonCall(name, f"{{{fields}}}", start, self._at)

    def take(self, mark: str) -> None:
        if not self.takes(mark):
            raise NotLiteral

    def takes(self, mark: str) -> bool:
        self._skip()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _argument(self) -> tuple[str, str]:
        self._skip()
        start = self._at
        named = _NAME.match(self._text, start)
        if named is not None:
            self._at = named.end()
            if self.takes("="):
                return named[0], self._value(0)
            self._at = start
        return "", self._value(0)

    def _value(self, depth: int) -> str:
        if depth > DEPTH_MAX:
            raise NotLiteral
        self._skip()
        text, at = self._text, self._at
        if (quote := _QUOTE.match(text, at)) is not None:
            return _json(self._string(quote))
        if (word := _NAME.match(text, at)) is not None:
            self._at = word.end()
            if word[0] not in _WORDS:
                raise NotLiteral
            return _WORDS[word[0]]
        if self.takes("["):
            return f"[{','.join(self._items(']', depth)[0])}]"
        if self.takes("("):
            items, is_tuple = self._items(")", depth)
            return f"[{','.join(items)}]" if is_tuple else items[0]
        if self.takes("{"):
            return self._object(depth)
        number = _NUMBER.match(text, at)
        assert number is not None, "it matches nothing at all, too"
        self._at = number.end()
        return _number(number[0])

    def _items(self, close: str, depth: int) -> tuple[list[str], bool]:
        """And whether it is more than one value in parentheses."""
        items: list[str] = []
        while not self.takes(close):
            if items:
                self.take(",")
                if self.takes(close):
                    return items, True
            items.append(self._value(depth + 1))
        return items, len(items) != 1

    def _object(self, depth: int) -> str:
        fields: list[str] = []
        while not self.takes("}"):
            if fields:
                self.take(",")
                if self.takes("}"):
                    break
            self._skip()
            quote = _QUOTE.match(self._text, self._at)
            if quote is None:
                raise NotLiteral
            key = _json(self._string(quote))
            self.take(":")
            fields.append(f"{key}:{self._value(depth + 1)}")
        return f"{{{','.join(fields)}}}"

    def _string(self, quote: re.Match[str] | None) -> str:
        """Neighbouring strings are one."""
        pieces: list[str] = []
        while quote is not None:
            body = _STRINGS[quote[2]].match(self._text, quote.end())
            if body is None:
                raise NotLiteral
            pieces.append(body[1] if quote[1] in ("r", "R") else _ESCAPE.sub(_unescaped, body[1]))
            self._at = body.end()
            self._skip()
            quote = _QUOTE.match(self._text, self._at)
        return "".join(pieces)

    def _name(self) -> str:
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise NotLiteral
        self._at = name.end()
        return name[0]

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at


def _unescaped(found: re.Match[str]) -> str:
    newline, octal, two, four, eight, other = found.groups()
    if newline:
        return ""
    if octal:
        return chr(int(octal, 8))
    if number := two or four or eight:
        code = int(number, 16)
        if code > 0x10FFFF:
            raise NotLiteral
        return chr(code)
    return _ESCAPES.get(other, found[0])


def _number(text: str) -> str:
    plain = text.replace("_", "").removeprefix("+")
    if _INTEGER.fullmatch(plain):
        return "0" if not plain.strip("-0") else plain
    try:
        value = float(plain)
    except ValueError:
        raise NotLiteral from None
    if value in (float("inf"), float("-inf")) or not any(mark in plain for mark in ".eE"):
        raise NotLiteral
    return repr(value)


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:
        pass
    try:
        # Written as in JSON, a character beyond the first plane is two escapes; together they are one again.
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise NotLiteral from None
    return msgspec.json.encode(whole).decode()
