"""A reply's text, piece by piece, into text and calls. A pure step: how the text is cut does not change what it means.

A sentinel counts at the beginning of a line that is not inside a code fence. So a line is held back only while it could
still become one; everything else is passed on as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from turnwright.providers.text_tools.notation import BLANKS, LINE_CHARS_MAX, Block, Notation, Opening, Over
from turnwright.schema.parts import Part, Text

FIRST_INDEX = 1_000_000
"""Apart from any number that a provider gives to calls of its own."""

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")

Phase: TypeAlias = Literal["held", "watched", "plain"]
"""Of the present line: held back, passed on but perhaps a fence, passed on."""


class Fence(msgspec.Struct, frozen=True):
    """A code fence that is open, and is not a call."""

    mark: str
    width: int


class State(msgspec.Struct, frozen=True):
    notations: tuple[Notation, ...]
    phase: Phase = "held"
    line: str = ""
    """The present line, unless it is plain."""
    above: str = ""
    """The line above, held back since it may name a file."""
    named: str = ""
    """The line above the last call that had one: the next one may be for the same file."""
    fence: Fence | None = None
    block: Block | None = None
    calls: int = 0


def begin(notations: Sequence[Notation]) -> State:
    return State(tuple(notations))


def step(state: State, text: str) -> tuple[State, list[Part]]:
    """The parts that `text` makes. Text comes out joined as far as nothing stands in between."""
    if not state.notations or (state.block is None and state.phase == "plain" and "\n" not in text):
        return state, [Text(text)] if text else []
    reading = _Reading(state, text)
    reading.read()
    return reading.state(), reading.parts


def end(state: State) -> list[Part]:
    """What is left when the reply is over: held text, or a call that is not whole."""
    reading = _Reading(state, "")
    reading.finish()
    return reading.parts


class _Reading:
    """One step under way."""

    def __init__(self, state: State, text: str) -> None:
        self.parts: list[Part] = []
        self._said: list[str] = []
        self._text = text
        self._at = 0
        self._notations = state.notations
        self._holds_paths = any(notation.wants_line_above for notation in state.notations)
        self._phase: Phase = state.phase
        self._line = state.line
        self._above = state.above
        self._named = state.named
        self._fence = state.fence
        self._block = state.block
        self._calls = state.calls

    def state(self) -> State:
        return State(
            self._notations,
            self._phase,
            self._line,
            self._above,
            self._named,
            self._fence,
            self._block,
            self._calls,
        )

    def read(self) -> None:
        while self._at < len(self._text):
            if self._block is not None:
                self._read_block(self._block)
            else:
                self._read_line()
        self._flush()

    def finish(self) -> None:
        if self._block is None and self._phase == "held" and self._fence is None:
            opening = self._opening(self._line + "\n")
            if isinstance(opening, Opening):
                self._open(opening)
            else:
                self._say(self._above + self._line)
        self._flush()
        if self._block is not None:
            self.parts += self._block.end()

    def _read_block(self, block: Block) -> None:
        following, parts = block.feed(self._text, self._at)
        self.parts += parts
        if isinstance(following, Over):
            self._at, self._block = following.at, None
            self._calls += following.calls
            self._line, self._phase = "", "plain" if following.midline else "held"
        else:
            self._at, self._block = len(self._text), following

    def _read_line(self) -> None:
        """Up to the end of the line, or of what there is of it."""
        stop = self._text.find("\n", self._at) + 1
        is_whole = stop > 0
        stop = stop or len(self._text)
        piece = self._text[self._at : stop]
        self._at = stop
        if self._phase == "plain":
            self._say(piece)
        else:
            self._line += piece
            if self._phase == "held" and self._fence is None and self._hold(is_whole):
                return
            self._say(piece if self._phase == "watched" else self._line)
            if is_whole:
                self._mind_fence()
            self._phase = "watched" if self._may_be_fence() else "plain"
        if is_whole:
            self._line, self._phase = "", "held"
        elif self._phase == "plain":
            self._line = ""

    def _hold(self, is_whole: bool) -> bool:
        """True where the line opens a call, or has to wait."""
        line = self._line
        opening = self._opening(line)
        if isinstance(opening, Opening):
            self._at -= len(line) - opening.used
            self._open(opening)
            return True
        if opening == "maybe":
            return True
        path = self._holds_paths and len(line) <= LINE_CHARS_MAX and _may_be_path(line)
        if path and not is_whole:
            return True
        if self._above and not line.strip() and self._above.count("\n") < 2:
            self._above, self._line = self._above + line, ""
            return True
        self._say(self._above)
        self._above = ""
        if path:
            self._above, self._line = line, ""
        return path

    def _opening(self, line: str) -> Opening | Literal["no", "maybe"]:
        answer: Literal["no", "maybe"] = "no"
        for notation in self._notations:
            opens = notation.opens(line, self._above or self._named, FIRST_INDEX + self._calls)
            if isinstance(opens, Opening):
                return opens if opens.used <= LINE_CHARS_MAX else "no"
            if opens == "maybe" and len(line) <= LINE_CHARS_MAX:
                answer = "maybe"
        return answer

    def _open(self, opening: Opening) -> None:
        if opening.takes_above:
            self._named = self._above or self._named
        else:
            self._say(self._above)
        self._above = self._line = ""
        self._flush()
        self._block = opening.block
        self.parts += opening.parts

    def _mind_fence(self) -> None:
        """A whole line was passed on: does it open a fence, or close the open one?"""
        line = self._line[:-1]
        if len(line) > LINE_CHARS_MAX:
            return
        if self._fence is None:
            found = _FENCE.match(line)
            self._fence = Fence(found[1][0], len(found[1])) if found else None
        else:
            marks = line.strip(BLANKS)
            closes = _indent(line) <= 3 and len(marks) >= self._fence.width and not marks.strip(self._fence.mark)
            self._fence = None if closes else self._fence

    def _may_be_fence(self) -> bool:
        line = self._line
        rest = line.lstrip(" ")
        if len(line) > LINE_CHARS_MAX or len(line) - len(rest) > 3:
            return False
        return not rest or (rest[0] in "`~" and not rest.strip(rest[0])) or _FENCE.match(line) is not None

    def _say(self, text: str) -> None:
        if text:
            self._said.append(text)

    def _flush(self) -> None:
        if self._said:
            self.parts.append(Text("".join(self._said)))
            self._said = []


def _may_be_path(line: str) -> bool:
    """One word alone on its line, as in `src/a.py`, `**src/a.py**` or `### src/a.py:`. Never a fence."""
    if line.lstrip(" ").startswith(("```", "~~~")):
        return False
    words = line.strip("#*`: \t\r\n").split(None, 1)
    return len(words) == 1 or (not words and not line.endswith("\n"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
