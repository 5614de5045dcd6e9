"""What has been shown live and is in no fact yet: where a late follower begins, and what one that fell behind missed.

Unlike the other views it is changed in place: it is fed with every delta.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from turnwright.schema.facts import AttemptEnded, AttemptStarted, KnownFact, ModelReplied, ToolEnded, TurnEnded, Unknown
from turnwright.schema.hosting import OpenPart
from turnwright.schema.live import LiveEvent, ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutput

KEPT_CHARS = 256 * 1024
"""Of each part. A tool may print without end; who comes late gets the end of it."""

Growing: TypeAlias = TextDelta | ReasoningDelta | ToolArgsDelta | ToolOutput
Key: TypeAlias = tuple[type[Growing], str, str]
"""What grows, the call that it belongs to, and on which stream."""


class OpenParts:
    """Grow by live events, closed by the facts that hold what they said."""

    def __init__(self) -> None:
        self._parts: dict[Key, _Part] = {}

    def live(self, event: LiveEvent) -> None:
        if isinstance(event, TextDelta | ReasoningDelta | ToolArgsDelta | ToolOutput):
            key = _key(event)
            part = self._parts.get(key)
            if part is None:
                self._parts[key] = part = _Part(event)
            part.add(_text(event))

    def fact(self, fact: KnownFact | Unknown) -> None:
        match fact:
            case AttemptStarted() | AttemptEnded() | ModelReplied():
                self._parts = {key: part for key, part in self._parts.items() if key[0] is ToolOutput}
            case ToolEnded(call_id=str(call_id)):
                self._parts = {key: part for key, part in self._parts.items() if key[1] != call_id}
            case TurnEnded():
                self._parts = {}
            case _:
                pass

    def now(self) -> tuple[OpenPart, ...]:
        return tuple(part.whole() for part in self._parts.values())

    def rest_of(self, part: OpenPart) -> LiveEvent | None:
        """What of a part that somebody else kept was not fed to this one; it counts as fed from then on."""
        assert isinstance(part.event, TextDelta | ReasoningDelta | ToolArgsDelta | ToolOutput)
        mine = self._parts.get(_key(part.event))
        seen = mine.chars if mine is not None else 0
        text = _text(part.event)[max(0, seen - part.skipped_chars) :]
        if not text:
            return None
        rest = _with_text(part.event, text)
        self.live(rest)
        self._parts[_key(rest)].chars = part.skipped_chars + len(_text(part.event))
        return rest


class _Part:
    """A long one keeps its end, and how much it was."""

    def __init__(self, first: Growing) -> None:
        self.chars = 0
        self._first = first
        self._pieces: list[str] = []
        self._kept = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self.chars += len(text)
        self._kept += len(text)
        if self._kept > 2 * KEPT_CHARS:
            self._pieces = ["".join(self._pieces)[-KEPT_CHARS:]]
            self._kept = KEPT_CHARS

    def whole(self) -> OpenPart:
        text = "".join(self._pieces)[-KEPT_CHARS:]
        return OpenPart(event=_with_text(self._first, text), skipped_chars=self.chars - len(text))


def _key(event: Growing) -> Key:
    match event:
        case ToolArgsDelta():
            return ToolArgsDelta, event.call_id, ""
        case ToolOutput():
            return ToolOutput, event.call_id, event.stream
        case TextDelta() | ReasoningDelta():
            return type(event), "", ""


def _text(event: Growing) -> str:
    return event.fragment if isinstance(event, ToolArgsDelta) else event.text


def _with_text(event: Growing, text: str) -> Growing:
    return replace(event, fragment=text) if isinstance(event, ToolArgsDelta) else replace(event, text=text)
