"""What a model says, masked while it is still saying it: for everybody who watches live."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from turnwright.schema.facts import AttemptEnded, ModelReplied, Recorded, ToolStarted, TurnEnded
from turnwright.schema.live import LiveEvent, ReasoningDelta, TextDelta, ToolArgsDelta, ToolPreview, TurnSealed
from turnwright.schema.masking import Masker
from turnwright.schema.streamed_secrets import Beginnings, StreamMasker

Said: TypeAlias = TextDelta | ReasoningDelta | ToolArgsDelta


class LiveMasker:
    """Passes events on. The output of tools was masked where it came from; facts are, before they are recorded."""

    def __init__(self, masker: Masker, tell: Callable[[LiveEvent], None]) -> None:
        self._beginnings = Beginnings(masker)
        self._tell = tell
        self._kind: type[LiveEvent] | None = None
        """Of the part of a reply that is being said."""
        self._stream = StreamMasker(self._beginnings)
        self._last: TextDelta | ReasoningDelta | None = None
        self._arguments: dict[str, tuple[StreamMasker, ToolArgsDelta]] = {}

    def emit(self, event: LiveEvent) -> None:
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta:
            assert isinstance(event, (TextDelta, ReasoningDelta))
            if kind is not self._kind:
                self.flush()  # another part of the reply: what was held of the one before comes first
                self._kind, self._stream = kind, StreamMasker(self._beginnings)
            self._last, text = event, event.text
            if shown := self._stream.feed(text):
                self._tell(event if shown is text or shown == text else _with(event, shown))
            return
        match event:
            case ToolArgsDelta():
                self._fed(event)
            case ToolPreview():
                self._tell(self._preview(event))
            case TurnSealed():
                self.flush()
                self._tell(event)
            case _:
                self._tell(event)

    def before(self, recorded: Recorded) -> None:
        """The facts behind which nothing of a reply comes any more."""
        if isinstance(recorded.fact, (AttemptEnded, ModelReplied, ToolStarted, TurnEnded)):
            self.flush()

    def flush(self) -> None:
        self._flush_words()
        streams, self._arguments = self._arguments, {}
        for stream, last in streams.values():
            if left := stream.end():
                self._tell(_with(last, left))

    def _flush_words(self) -> None:
        self._kind = None
        if self._last is not None and (left := self._stream.end()):
            self._tell(_with(self._last, left))
        self._last = None

    def _fed(self, event: ToolArgsDelta) -> None:
        """Several calls may be written at once."""
        self._flush_words()
        if event.call_id not in self._arguments:
            self._arguments[event.call_id] = StreamMasker(self._beginnings), event
        stream, _ = self._arguments[event.call_id]
        if shown := stream.feed(event.fragment):
            self._tell(event if shown == event.fragment else _with(event, shown))

    def _preview(self, event: ToolPreview) -> ToolPreview:
        mask = self._beginnings.masker
        return msgspec.structs.replace(
            event,
            path=mask(event.path),
            lines=tuple(mask("\n".join(event.lines)).split("\n")) if event.lines else (),
            old=mask(event.old),
            new=mask(event.new),
        )


def _with(event: Said, text: str) -> Said:
    match event:
        case ToolArgsDelta():
            return msgspec.structs.replace(event, fragment=text)
        case _:
            return msgspec.structs.replace(event, text=text)
