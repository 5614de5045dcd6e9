"""A call whose block is lines up to a closing one: its text is an argument, passed on as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from turnwright.providers.text_tools.notation import (
    BLANKS,
    LINE_CHARS_MAX,
    Block,
    Over,
    begins,
    escaped,
    is_line,
)
from turnwright.schema.parts import Part, ToolCallArguments, ToolCallEnd


class Ending(Protocol):
    def may(self, line: str) -> bool:
        """Whether a line that begins so could still close the block."""
        ...

    def closes(self, line: str) -> bool:
        """Whether this whole line does, with or without its newline."""
        ...


class Sentinel(msgspec.Struct, frozen=True):
    """A line of exactly this text, blanks after it aside."""

    text: str

    def may(self, line: str) -> bool:
        return begins(line, self.text)

    def closes(self, line: str) -> bool:
        return is_line(line, self.text)


class FenceEnd(msgspec.Struct, frozen=True):
    """Backticks, at least as many as opened the fence and indented no further: what is indented is content."""

    width: int
    indent: int

    def may(self, line: str) -> bool:
        marks = line.rstrip(BLANKS + "\n").lstrip(" ")
        return not marks.strip("`") and len(line) - len(line.lstrip(" ")) <= self.indent

    def closes(self, line: str) -> bool:
        return self.may(line) and len(line.strip(BLANKS + "\n")) >= self.width


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """An open block. Its JSON string was begun by whoever opened it; `after` is what follows that string."""

    index: int
    ending: Ending
    after: str = '"}'
    then: Lines | None = None
    """The block goes on with another part, whose text is another argument."""
    keeps_ending: bool = False
    """The closing line belongs to the text."""
    trims: bool = False
    """The newline before the closing line does not belong to the text."""
    line: str = ""
    is_plain: bool = False
    due: bool = False
    """A newline waits: whether it belongs to the text is seen by what follows."""

    def feed(self, text: str, at: int) -> tuple[Block | Over, Sequence[Part]]:
        said: list[str] = []
        line, is_plain = self.line, self.is_plain
        while at < len(text):
            stop = text.find("\n", at) + 1
            is_whole = stop > 0
            stop = stop or len(text)
            line = text[at:stop] if is_plain else line + text[at:stop]
            at = stop
            if not is_plain and is_whole and len(line) <= LINE_CHARS_MAX and self.ending.closes(line):
                return self._closed(said, line, text, at)
            if is_whole or is_plain or len(line) > LINE_CHARS_MAX or not self.ending.may(line):
                said.append(line)
                line, is_plain = "", not is_whole
        content, due = self._content(said)
        return msgspec.structs.replace(self, line=line, is_plain=is_plain, due=due), self._arguments(escaped(content))

    def end(self) -> Sequence[Part]:
        if not self.is_plain and self.ending.closes(self.line):
            following, parts = self._closed([], self.line, self.line, len(self.line))
            return parts if isinstance(following, Over) else [*parts, *following.end()]
        return self._arguments(escaped(self._content([self.line])[0]))

    def _closed(self, said: list[str], line: str, text: str, at: int) -> tuple[Block | Over, Sequence[Part]]:
        if self.keeps_ending:
            said.append(line.rstrip(BLANKS + "\n") + "\n")
        content, _ = self._content(said)
        parts = self._arguments(escaped(content) + self.after)
        if self.then is None:
            return Over(at=at), [*parts, ToolCallEnd(index=self.index)]
        following, more = self.then.feed(text, at)
        return following, [*parts, *more]

    def _content(self, said: list[str]) -> tuple[str, bool]:
        """The text to pass on now, and whether a newline is held back from its end."""
        if not said or not any(said):
            return "", self.due
        content = "\n" * self.due + "".join(said)
        if self.trims and content.endswith("\n"):
            return content[:-1], True
        return content, False

    def _arguments(self, fragment: str) -> list[Part]:
        return [ToolCallArguments(index=self.index, fragment=fragment)] if fragment else []
