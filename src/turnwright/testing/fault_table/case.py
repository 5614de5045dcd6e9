"""A row of the fault table: what the server does, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from turnwright.providers.codec import Dialect
from turnwright.schema.verdicts import ErrorKind, FinishClass, StallReason, StopReason, Verdict
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.said import Frame, Said, SaidCall, SaidError, Speaker, framed, joined
from turnwright.testing.exchange import Exchange, opened, streamed, whole

TRIES = 3
"""Requests that one route gets for one step under the default retry, if every one may be tried again."""

TEXT = ("Hello", ", wör", "ld! ", "你好 🙂")
ANNOUNCED = ("Let me ", "look.")
CALL = SaidCall(name="ls", fragments=('{"pa', 'th": ', '"."}'), id="call_1")
FINAL = "All done."
"""What the server answers once it has been sent tool results."""


class ExpectedCall(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    """JSON, to be compared as a value."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Of the first attempt; `calls` and what follows `retryable` are of the whole run. None is no promise, where a
    promise could be made."""

    verdict: Verdict
    text: str | None = ""
    reasoning: str = ""
    calls: tuple[ExpectedCall, ...] = ()
    """Calls that must be run until the run is over, in order."""
    finish: FinishClass | None = None
    error_kind: ErrorKind | None = None
    status: int | None = None
    stall: StallReason | None = None
    retryable: bool = False
    """Whether the same request may be sent again: nothing of an answer had come, and another try could do better."""
    requests: int = 1
    """That the server sees until the run is over, with one route and the default attempt budget."""
    ends: StopReason = "provider-error"
    answer: str | None = None
    """The last thing said to the user."""


class FaultCase(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """Also the path under which the server plays it."""
    fault: str
    about: str
    dialect: Dialect
    streaming: bool
    """Whether the client is to ask for a stream."""
    tools: bool
    """Whether the reply asks for a tool; the client must then offer `ls` and `glob`."""
    once: bool
    """The fault is met at the first request only."""
    expected: Expected
    exchanges: tuple[Exchange, ...]
    """For the first request, the second and so on; the last one repeats."""
    for_documents: Exchange | None = None
    """For requests that ask for no stream, where those fare better."""


class Behaviour(msgspec.Struct, frozen=True):
    """What a fault does in one setting."""

    exchange: Exchange
    expected: Expected
    for_documents: Exchange | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Dialect × streaming × tools, and what is well-formed in it."""

    dialect: Dialect
    streaming: bool
    tools: bool

    @property
    def speaker(self) -> Speaker:
        return SPEAKERS[self.dialect]

    @property
    def fragments(self) -> bool:
        """Arguments come in pieces here."""
        return self.streaming and self.dialect not in ("gemini", "ollama")

    @property
    def sse(self) -> bool:
        return self.streaming and self.speaker.framing == "sse"

    @property
    def said(self) -> Said:
        if not self.tools:
            return Said(text=TEXT)
        call = msgspec.structs.replace(CALL, id="") if self.dialect in ("gemini", "ollama") else CALL
        return Said(text=ANNOUNCED, calls=(call,), finish="tool_calls")

    @property
    def content_type(self) -> str:
        if not self.streaming:
            return "application/json"
        return "text/event-stream; charset=utf-8" if self.sse else "application/x-ndjson"

    def frames(self, said: Said | None = None) -> list[Frame]:
        return self.speaker.stream(said or self.said)

    def pieces(self, frames: list[Frame]) -> list[bytes]:
        return [framed(one, self.speaker.framing) for one in frames]

    def body(self, said: Said | None = None) -> bytes:
        """Everything in one: a stream's bytes, or the document."""
        if self.streaming:
            return b"".join(self.pieces(self.frames(said)))
        return msgspec.json.encode(self.speaker.document(said or self.said))

    def reply(self, said: Said | None = None) -> Exchange:
        """Well-formed."""
        if self.streaming:
            return streamed(self.content_type, self.pieces(self.frames(said)))
        return whole(200, self.content_type, self.body(said))

    def of_frames(self, frames: list[Frame]) -> Exchange:
        """A well-formed stream of just these frames."""
        return streamed(self.content_type, self.pieces(frames))

    def begun(self, frames: list[Frame]) -> Exchange:
        """These frames, and the stream stays open."""
        return opened(self.content_type, self.pieces(frames))

    def error(self, error: SaidError, *headers: tuple[str, str]) -> Exchange:
        body = msgspec.json.encode(self.speaker.error_body(error))
        return whole(error.status, "application/json", body, *headers)

    def text_of(self, frames: list[Frame]) -> str:
        """The text that these first frames of the setting's own reply bring."""
        return joined(self.said.text[: sum(one.kind == "text" for one in frames)])


CONTENT = ("text", "reasoning", "refusal", "call", "arguments")


def has_content(frames: list[Frame]) -> bool:
    return any(one.kind in CONTENT for one in frames)


def up_to(frames: list[Frame], kind: str, count: int = 1) -> list[Frame] | None:
    """The frames through the `count`-th of that kind."""
    places = [place for place, one in enumerate(frames) if one.kind == kind]
    return frames[: places[count - 1] + 1] if len(places) >= count else None


def before(frames: list[Frame], kind: str) -> list[Frame]:
    return frames[: next(place for place, one in enumerate(frames) if one.kind == kind)]


def good(setting: Setting, said: Said | None = None, *, text: str | None = None) -> Expected:
    """The whole reply arrives; tools are run, and the answer after them ends the turn."""
    said = said or setting.said
    text = joined(said.text) if text is None else text
    calls = tuple(ExpectedCall(call.name, call.arguments or "{}") for call in said.calls)
    return Expected(
        verdict="tool_calls" if calls else "complete",
        text=text,
        reasoning=joined(said.reasoning),
        calls=calls,
        finish="tool_calls" if calls else said.finish,
        requests=2 if calls else 1,
        ends="stop",
        answer=FINAL if calls else text,
    )


def failed(
    verdict: Verdict,
    *,
    retryable: bool = True,
    text: str | None = "",
    reasoning: str = "",
    error_kind: ErrorKind | None = None,
    status: int | None = None,
    stall: StallReason | None = None,
    finish: FinishClass | None = None,
) -> Expected:
    return Expected(
        verdict=verdict,
        text=text,
        reasoning=reasoning,
        error_kind=error_kind,
        status=status,
        stall=stall,
        finish=finish,
        retryable=retryable,
        requests=TRIES if retryable else 1,
    )


class Fault(msgspec.Struct, frozen=True):
    name: str
    about: str
    make: Callable[[Setting], Behaviour | None]
    """None where it cannot happen."""


def recovered(setting: Setting, expected: Expected) -> Expected:
    """The same fault at the first request only."""
    reply = good(setting)
    return msgspec.structs.replace(
        expected, calls=reply.calls, requests=1 + reply.requests, ends=reply.ends, answer=reply.answer
    )
