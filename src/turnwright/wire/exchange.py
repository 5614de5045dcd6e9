"""One HTTP exchange: send, gate, frame, and hang up when time is over.

The gap clock runs on what the reader calls progress, not on bytes: a stream that is only kept warm ends like a silent
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from turnwright.schema.frames import Frame
from turnwright.schema.settings import Timers
from turnwright.schema.verdicts import StallReason
from turnwright.wire.connection import Connection, Fault, Head
from turnwright.wire.gate import Framing, Reading
from turnwright.wire.http import HttpClient, Request
from turnwright.wire.reading import REFUSED_BYTES_MAX, BodyReader
from turnwright.wire.url import parse_url

REFUSED_GRACE_S = 2.0
"""How long the rest of a body that is no answer is waited for: it is evidence, not worth a stall."""
FINISHED_GRACE_S = 5.0
"""How long a stream may stay open after its finish reason: usage may follow, an end need not."""


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The share of `kernel.ports.Clock` that is needed here."""

    def monotonic(self) -> float: ...

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> TimerHandle: ...


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an exchange ended."""

    how: Literal["eof", "http_error", "interstitial", "non_json", "stall", "transport", "too_large"]
    detail: str = ""
    stall: StallReason | None = None
    bytes_in: int = 0
    replaced: int = 0
    """Sequences that are no UTF-8, and were replaced."""
    body: bytes = b""
    """What was kept of a body that is not an answer."""
    excerpt: str = ""


class Recorder(Protocol):
    """Hears everything with its time. Must not block, and must not keep what it cannot bound."""

    def sent(self, request: Request, asked: Framing | None, at_s: float) -> None: ...

    def head(self, head: Head, at_s: float) -> None: ...

    def chunk(self, data: bytes, at_s: float) -> None: ...

    def ended(self, ended: Ended, at_s: float) -> None: ...


class Exchange:
    """`read` gives batches of frames, one per arrival of bytes, then None; `ended` then says how it ended.

    `close` may be called at any time and hangs up at once; a cancelled `read` does so by itself.
    """

    def __init__(
        self,
        client: HttpClient,
        request: Request,
        *,
        asked: Framing | None,
        clock: Clock,
        timers: Timers,
        recorder: Recorder | None = None,
    ) -> None:
        self.head: Head | None = None
        self.ended: Ended | None = None
        self._client = client
        self._request = request
        self._url = parse_url(request.url)
        self._asked = asked
        self._clock = clock
        self._timers = timers
        self._recorder = recorder
        self._first_byte_s = timers.first_byte_s if asked else max(timers.first_byte_s, timers.gap_s)
        self._opening: asyncio.Task[Connection | Fault] | None = None
        self._connection: Connection | None = None
        self._reader: BodyReader | None = None
        self._timer: TimerHandle | None = None
        self._timer_at = float("inf")
        self._stall: StallReason | None = None
        self._in_read = False
        self._excused = False
        """A timer ran out while the reader was busy; it is set again when the reader comes back."""
        self._grace_until: float | None = None
        self._grace_over = False
        self._started_s = self._sent_s = self._progress_s = self._left_s = 0.0
        self._progressed = False
        self._body_begun = False

    @property
    def reading(self) -> Reading | None:
        """How the body is read, once that is known."""
        return self._reader.reading if self._reader else None

    def progressed(self) -> None:
        """The last batch held a piece of content: the gap clock starts again."""
        self._progressed = True
        self._progress_s = self._clock.monotonic()
        if self._grace_until is not None:
            self._grace(min(FINISHED_GRACE_S, self._timers.gap_s))

    def finished(self) -> None:
        """A finish reason came. Wait for what may follow it, but not for long."""
        if self._grace_until is None:
            self._grace(min(FINISHED_GRACE_S, self._timers.gap_s))

    async def read(self) -> Sequence[Frame] | None:
        if self.ended is not None:
            return None
        if self._connection is not None:  # the time the reader took is not the server's
            self._progress_s += self._clock.monotonic() - self._left_s
            if self._excused:
                self._excused = False
                self._arm()
        self._in_read = True
        try:
            frames = await self._read()
        except BaseException:
            self.close()
            raise
        finally:
            self._in_read = False
        self._left_s = self._clock.monotonic()
        return frames

    def leave(self) -> None:
        """The reply is whole, whatever may still come: let the rest be read aside, and be done."""
        if self.ended is None and self._connection is not None:
            connection, self._connection = self._connection, None
            replaced = self._reader.replaced if self._reader else 0
            self._end(Ended(how="eof", bytes_in=connection.bytes_in, replaced=replaced))
            self._client.drain(connection, self._url.origin)

    def close(self) -> None:
        """Hang up. Does nothing after the end."""
        self._disarm()
        if self._opening is not None:
            self._opening.cancel()
            self._opening.add_done_callback(self._discard_late)
            self._opening = None
        if self._connection is not None:
            self._client.discard(self._connection)
            self._connection = None

    async def _read(self) -> Sequence[Frame] | None:
        if self._connection is None and not await self._begin():
            return None
        connection, reader = self._connection, self._reader
        assert connection is not None and reader is not None
        while True:
            if data := connection.take():
                frames = self._feed(reader, data, connection.arrived_s)
                if reader.too_large or len(reader.body) >= REFUSED_BYTES_MAX:
                    self._over(reader, connection)
                if frames or self.ended:
                    return frames or None
            elif connection.done or connection.fault or self._stall or self._grace_over:
                # Not before everything that came was taken: bytes that are here count, whatever followed them.
                return self._last(reader, connection)
            else:
                await connection.wait()

    def _feed(self, reader: BodyReader, data: bytes, arrived_s: float) -> Sequence[Frame]:
        if not self._body_begun:
            self._body_begun = True
            self._arm()
        if self._recorder is not None:
            self._recorder.chunk(data, arrived_s)
        frames = reader.feed(data)
        if reader.reading == "json" and not data.isspace():
            self.progressed()  # a document has no parts on its way; its bytes are its progress
        elif reader.refused is not None and self._grace_until is None:
            self._grace(REFUSED_GRACE_S)
        return frames

    def _last(self, reader: BodyReader, connection: Connection) -> Sequence[Frame] | None:
        frames = reader.end(cut=not connection.done)
        self._over(reader, connection)
        return frames or None

    def _over(self, reader: BodyReader, connection: Connection) -> None:
        """Say how it ended, and give the connection back or up."""
        base = Ended(
            how="eof",
            bytes_in=connection.bytes_in,
            replaced=reader.replaced,
            body=reader.body,
            excerpt=reader.excerpt,
        )
        if reader.refused is not None:
            ended = msgspec.structs.replace(base, how=reader.refused.how, detail=reader.refused.detail)
        elif reader.too_large:
            ended = msgspec.structs.replace(base, how="too_large", detail="one piece of the reply is too large")
        elif self._stall is not None and not connection.done:
            ended = msgspec.structs.replace(base, how="stall", stall=self._stall, detail=self._stall_words())
        elif connection.fault is not None:
            ended = msgspec.structs.replace(base, how="transport", detail=connection.fault.message)
        else:
            ended = base
        self._connection = None
        self._client.keep(connection, self._url.origin)
        self._end(ended)

    def _end(self, ended: Ended) -> None:
        self.ended = ended
        self._disarm()
        if self._recorder is not None:
            self._recorder.ended(ended, self._clock.monotonic())

    # Until the head is here.

    async def _begin(self) -> bool:
        self._started_s = self._sent_s = self._progress_s = self._clock.monotonic()
        if self._recorder is not None:
            self._recorder.sent(self._request, self._asked, self._started_s)
        self._arm()
        connection = self._client.kept(self._url.origin) or await self._dial()
        if not isinstance(connection, Connection):
            how: Literal["stall", "transport"] = "transport" if connection else "stall"
            words = connection.message if connection else self._stall_words()
            self._end(Ended(how=how, stall=self._stall, detail=words))
            return False
        self._connection = connection
        self._sent_s = self._progress_s = self._left_s = self._clock.monotonic()
        connection.begin(self._client.request_bytes(self._request, self._url), self._clock.monotonic)
        self._arm()
        while connection.head is None and connection.fault is None and self._stall is None:
            await connection.wait()
        if connection.head is None:
            self._over(BodyReader(0, {}, self._asked), connection)
            return False
        self._begin_body(connection.head)
        return True

    def _begin_body(self, head: Head) -> None:
        self.head = head
        self._progress_s = self._clock.monotonic()
        if self._recorder is not None:
            self._recorder.head(head, self._progress_s)
        self._reader = BodyReader(head.status, dict(reversed(head.headers)), self._asked)
        self._arm()

    async def _dial(self) -> Connection | Fault | None:
        """None when it took too long."""
        opening = asyncio.get_running_loop().create_task(self._client.dial(self._url.origin, self._clock.monotonic))
        self._opening = opening  # while this is set, `close` sees to it that no connection is left behind
        try:
            opened = await opening
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stall is None or (task is not None and task.cancelling()):
                raise
            opened = None
        self._opening = None
        if self._stall is not None and isinstance(opened, Connection):
            self._client.discard(opened)
        return None if self._stall is not None else opened

    def _discard_late(self, opening: asyncio.Task[Connection | Fault]) -> None:
        """A connection that nobody waits for any more."""
        if not opening.cancelled() and opening.exception() is None and isinstance(made := opening.result(), Connection):
            self._client.discard(made)

    # Time.

    def _due(self) -> tuple[float, StallReason]:
        """What must happen next, and by when."""
        total = self._started_s + self._timers.total_s
        if self._connection is None:
            next_s, reason = self._started_s + self._timers.connect_s, _CONNECT
        elif self.head is None:
            next_s, reason = self._sent_s + self._first_byte_s, _HEADERS
        elif not self._body_begun:
            next_s, reason = self._sent_s + self._first_byte_s, _FIRST
        else:
            next_s, reason = self._progress_s + self._timers.gap_s, self._gap_reason()
        return (next_s, reason) if next_s <= total else (total, "total")

    def _gap_reason(self) -> StallReason:
        """A stream is kept warm if bytes still came in the second half of the time in which no content did."""
        last_s = self._connection.arrived_s if self._connection else 0.0
        if last_s - self._progress_s > self._timers.gap_s / 2:
            return "keepalive_only"
        return "gap" if self._progressed else "first_part"

    def _arm(self) -> None:
        """Timers that may fire too early are left to fire: re-arming at every part would cost more than it saves."""
        due = self._grace_until if self._grace_until is not None else self._due()[0]
        if due < self._timer_at:
            self._disarm()
            self._timer_at = due
            self._timer = self._clock.call_later(max(due - self._clock.monotonic(), 0.0), self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")

    def _tick(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = self._clock.monotonic()
        if self._grace_until is not None and now >= self._grace_until:
            self._grace_over = True
        elif self._grace_until is None:
            due, reason = self._due()
            if now < due:
                self._arm()
                return
            if not self._in_read and reason != "total":
                # The reader is busy with what it has: the server owes nothing yet.
                self._excused = True
                return
            self._stall = reason
        else:
            self._arm()
            return
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.wake()

    def _grace(self, within_s: float) -> None:
        self._grace_until = min(self._clock.monotonic() + within_s, self._started_s + self._timers.total_s)
        self._arm()

    def _stall_words(self) -> str:
        limits = {"connect": self._timers.connect_s, "total": self._timers.total_s}
        first = {"waiting_headers": self._first_byte_s, "first_part": self._first_byte_s}
        assert self._stall is not None
        limit_s = (limits | first).get(self._stall, self._timers.gap_s)
        return f"{_STALL_WORDS[self._stall]} (limit {limit_s:g} s)"


_CONNECT: StallReason = "connect"
_HEADERS: StallReason = "waiting_headers"
_FIRST: StallReason = "first_part"
_STALL_WORDS: dict[StallReason, str] = {
    "connect": "no connection stood in time",
    "waiting_headers": "no response headers came in time",
    "first_part": "no first part of the reply came in time",
    "gap": "the stream fell silent",
    "keepalive_only": "the stream was only kept warm: nothing but keep-alives came",
    "total": "the reply took too long as a whole",
}
