"""What a run shows: `--output text`, `json` or `stream-json`. All three see the same facts and live events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import BinaryIO, Literal, Protocol, TypeAlias

import msgspec

from turnwright.cli.exit_codes import ExitCode, of_reason
from turnwright.schema.errors import TurnwrightError
from turnwright.schema.facts import AttemptEnded, Recorded, encode_line
from turnwright.schema.live import LiveEvent, encode_live
from turnwright.schema.masking import mask
from turnwright.schema.parts import Usage
from turnwright.views.result import Denial, Estimate, Result, ResultState, encode_result, fold_result

Event: TypeAlias = Recorded | LiveEvent
Output: TypeAlias = Literal["text", "json", "stream-json"]
OUTPUTS: tuple[Output, ...] = ("text", "json", "stream-json")

TICK_S = 0.125
"""How often a status line moves."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of a run that ended without the end of a turn: nothing could be begun, or recorded. It has the
    fields of any other result, so that whoever reads the last line needs to know but one shape."""

    error: str
    """The sentence that stands on stderr too."""
    kind: str
    """The error's class."""
    conversation_id: str = ""
    reason: str = "error"
    is_error: bool = True
    text: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    steps: int = 0
    duration_ms: float = 0.0
    detail: str = ""
    remedy: str = ""
    denials: tuple[Denial, ...] = ()
    tokens_per_s: float | None = None
    estimated: tuple[Estimate, ...] = ()


class Face(Protocol):
    ticks: bool
    """It moves while nothing happens."""

    def fact(self, recorded: Recorded) -> None: ...

    def live(self, event: LiveEvent) -> None: ...

    def tick(self) -> None: ...

    def ended(self, result: Result) -> None:
        """The turn is over."""
        ...

    def failed(self, error: TurnwrightError) -> None:
        """There will be no end of the turn."""
        ...


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the events. `result` is None where no turn ended."""

    result: Result | None
    key_refused: bool = False

    @property
    def exit_code(self) -> ExitCode:
        if self.result is None:
            return ExitCode.ERROR
        return of_reason(self.result.reason, key_refused=self.key_refused)


async def show(events: AsyncIterable[Event], face: Face) -> Shown:
    """Everything to the face until the events end; then the result. An error passes on once the face has shown it."""
    ticker = asyncio.create_task(ticking(face)) if face.ticks else None
    state = ResultState()
    key_refused = False
    try:
        async for event in events:
            if not isinstance(event, Recorded):
                face.live(event)
                continue
            state = fold_result(state, event)
            if isinstance(event.fact, AttemptEnded):
                key_refused = event.fact.fault is not None and event.fact.fault.kind == "auth"
            face.fact(event)
    except TurnwrightError as error:
        face.failed(error)
        raise
    finally:
        if ticker is not None:
            ticker.cancel()
    if state.result is not None:
        face.ended(state.result)
    return Shown(result=state.result, key_refused=key_refused)


async def ticking(face: Face) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        face.tick()


class JsonFace:
    """One JSON object at the end."""

    ticks = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def fact(self, recorded: Recorded) -> None:
        """Only the result counts."""

    def live(self, event: LiveEvent) -> None:
        """Only the result counts."""

    def tick(self) -> None:
        """Nothing moves."""

    def ended(self, result: Result) -> None:
        self._line(encode_result(result))

    def failed(self, error: TurnwrightError) -> None:
        self._line(encode_failure(error))

    def _line(self, line: bytes) -> None:
        """Flushed at once: a program waits for it."""
        self._out.write(line + b"\n")
        self._out.flush()


class StreamFace(JsonFace):
    """Every event as one JSON object a line. Nothing is said before the first durable fact, whose line names the
    conversation: an id that is printed can be resumed."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__(out)
        self._waiting: list[LiveEvent] | None = []

    def fact(self, recorded: Recorded) -> None:
        self._line(encode_line(recorded))
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            for event in waiting:
                self.live(event)

    def live(self, event: LiveEvent) -> None:
        if self._waiting is not None:
            self._waiting.append(event)
        else:
            self._line(encode_live(event))


def encode_failure(error: TurnwrightError) -> bytes:
    return msgspec.json.encode(Failure(error=mask(str(error)), kind=type(error).__name__))
