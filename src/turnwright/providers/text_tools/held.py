"""A call that means nothing until it is whole: held back to its end, then it is a call, or was text all along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from turnwright.providers.text_tools.notation import Block, Over, Pieces, joined
from turnwright.schema.parts import Part, Text, ToolCallArguments, ToolCallEnd, ToolCallStart

CALL_CHARS_MAX = 8 * 1024 * 1024
"""What is held of one block. A longer one is a call that does not parse, and is passed on as such."""
HEAD_CHARS = 4096
"""Where the name is looked for in a block that cannot be read as a whole."""


class Scan(msgspec.Struct, frozen=True):
    """How far a block was understood: `at` is where the scanning stopped; what lies behind comes again."""

    mode: Any
    at: int
    found: Literal["more", "call", "prose"]


class Read(msgspec.Struct, frozen=True):
    parts: Sequence[Part]
    calls: int


class Syntax(Protocol):
    def scan(self, mode: Any, text: str, at: int, base: int) -> Scan:
        """Looks for the block's end. `base` is the offset of `text` in the block. `prose`: something else follows on
        the closing line, so it was no call."""
        ...

    def read(self, block: str, mode: Any, index: int) -> Read:
        """The parts of a whole block."""
        ...

    def name_in(self, head: str) -> str:
        """The tool of a block that is not whole, as far as can be told."""
        ...


class Held(msgspec.Struct, frozen=True, kw_only=True):
    syntax: Syntax
    index: int
    mode: Any
    spoken: Pieces
    """Everything from the sentinel on, as it was said."""
    size: int
    carry: str = ""
    """What could not be decided yet."""
    is_spilled: bool = False
    """It became too long, and its arguments are passed on as they come."""

    def feed(self, text: str, at: int) -> tuple[Block | Over, Sequence[Part]]:
        whole, start, shift = text, at, 0
        if self.carry:
            whole, start, shift = self.carry + text[at:], 0, at - len(self.carry)
        scan = self.syntax.scan(self.mode, whole, start, self.size - start)
        if scan.found != "more":
            over, parts = self._over(scan, whole[start : scan.at])
            behind = max(scan.at + shift, at)  # what was carried does not come again: it is prose, or was read
            undecided = whole[scan.at : behind - shift]
            return msgspec.structs.replace(over, at=behind), [*parts, Text(undecided)] if undecided else parts
        return self._longer(scan, whole, start)

    def end(self) -> Sequence[Part]:
        scan = self.syntax.scan(self.mode, self.carry + "\n", 0, self.size)
        if scan.found != "more":
            # An end of the reply ends the line too; that newline was never said.
            rest = (self.carry + "\n")[scan.at :].removesuffix("\n")
            _, parts = self._over(scan, self.carry[: scan.at])
            return [*parts, Text(rest)] if rest else parts
        if self.is_spilled:
            return self._fragment(self.carry)
        return self._unread((self.spoken, self.carry))

    def _longer(self, scan: Scan, whole: str, start: int) -> tuple[Block, Sequence[Part]]:
        piece = whole[start : scan.at]
        size, spoken = self.size + len(piece), self.spoken
        parts: Sequence[Part] = ()
        is_spilled = self.is_spilled
        if is_spilled:
            parts = self._fragment(piece)
        else:
            spoken = (spoken, piece) if piece else spoken
            if size > CALL_CHARS_MAX:
                parts, spoken, is_spilled = self._unread(spoken), None, True
        held = Held(
            syntax=self.syntax,
            index=self.index,
            mode=scan.mode,
            spoken=spoken,
            size=size,
            carry=whole[scan.at :],
            is_spilled=is_spilled,
        )
        return held, parts

    def _over(self, scan: Scan, piece: str) -> tuple[Over, Sequence[Part]]:
        prose = scan.found == "prose"
        if self.is_spilled or self.size + len(piece) > CALL_CHARS_MAX:
            said = self._fragment(piece) if self.is_spilled else self._unread((self.spoken, piece))
            return Over(at=0, midline=prose), [*said, ToolCallEnd(index=self.index)]
        block = joined((self.spoken, piece))
        if prose:
            return Over(at=0, calls=0, midline=True), [Text(block)]
        read = self.syntax.read(block, scan.mode, self.index)
        return Over(at=0, calls=read.calls), read.parts

    def _unread(self, spoken: Pieces) -> Sequence[Part]:
        """An open call with all that was said of it: it begins with a sentinel, so it never parses as arguments."""
        said = joined(spoken)
        return [ToolCallStart(index=self.index, name=self.syntax.name_in(said[:HEAD_CHARS])), *self._fragment(said)]

    def _fragment(self, text: str) -> list[Part]:
        return [ToolCallArguments(index=self.index, fragment=text)] if text else []
