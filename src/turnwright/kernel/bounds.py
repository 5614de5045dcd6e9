"""Everything that can end a turn from outside its own order of things: cancellation, the wall, a step that takes too
long or goes silent. Whatever trips first gives the reason; the turn's task is then cancelled exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from turnwright.kernel.decide import End
from turnwright.kernel.ports import Cancel, Clock, TimerHandle
from turnwright.schema.limits import Limits

HEARTBEAT_S = 5.0
IDLE_GRACE_S = 0.5
"""The wire's own gap timer may be as long as `step_idle_s`, and must win: a stall may be retried, an idle step not."""


class Stopped(Exception):
    """The turn is to end, wherever it is."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class Bounds:
    """A context round the steps of one turn. Leaving it by a trip raises Stopped in place of CancelledError."""

    def __init__(self, limits: Limits, clock: Clock, cancel: Cancel, beat: Callable[[], object]) -> None:
        self._limits = limits
        self._clock = clock
        self._cancel = cancel
        self._beat = beat
        self._end: End | None = None
        self._timers: dict[str, TimerHandle] = {}
        self._step_at = self._progress_at = 0.0
        self._awaiting = False
        self._asked = 0
        self._asked_at = 0.0
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._unsubscribe: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._unsubscribe = self._cancel.subscribe(lambda: self._trip(End("cancelled")))
        if self._limits.turn_wall_s is not None:
            end = End("wall-timeout", f"the turn took longer than {self._limits.turn_wall_s:g} s")
            self._arm("wall", self._limits.turn_wall_s, lambda: self._trip(end))
        self._arm("beat", HEARTBEAT_S, self._heartbeat)
        if self._cancel.requested:
            self._trip(End("cancelled"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unsubscribe()
        for timer in self._timers.values():
            timer.cancel()
        if self._end is None or self._task is None:
            return
        still_cancelled = self._task.uncancel() > self._cancelling
        if kind is None or (kind is asyncio.CancelledError and not still_cancelled):
            raise Stopped(self._end) from error

    def step_begins(self) -> None:
        self._step_at = self._clock.monotonic()
        if self._limits.step_total_s is not None and "step" not in self._timers:
            self._arm("step", self._limits.step_total_s, self._look_at_step)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """The user is asked: the time that people take is not the step's. The wall goes on."""
        if self._asked == 0:
            self._asked_at = self._clock.monotonic()
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1
            if self._asked == 0:
                self._step_at += self._clock.monotonic() - self._asked_at

    def awaiting_model(self) -> None:
        """The idle clock runs only while the model is awaited: a tool has its own time limit."""
        self.progressed()
        self._awaiting = True
        if self._limits.step_idle_s is not None and "idle" not in self._timers:
            self._arm("idle", self._limits.step_idle_s + IDLE_GRACE_S, self._look_for_idleness)

    def model_answered(self) -> None:
        self._awaiting = False

    def progressed(self) -> None:
        self._progress_at = self._clock.monotonic()

    # A timer that is out looks back and goes on for what is left. Moving it at every step and delta would cost more.

    def _look_at_step(self) -> None:
        total_s = self._limits.step_total_s
        assert total_s is not None
        now = self._asked_at if self._asked else self._clock.monotonic()
        left_s = total_s - (now - self._step_at)
        if left_s <= 0:
            self._trip(End("step-timeout", f"the step took longer than {total_s:g} s"))
        else:
            self._arm("step", left_s, self._look_at_step)

    def _look_for_idleness(self) -> None:
        if not self._awaiting:
            del self._timers["idle"]
            return
        assert self._limits.step_idle_s is not None
        left_s = self._limits.step_idle_s + IDLE_GRACE_S - (self._clock.monotonic() - self._progress_at)
        if left_s <= 0:
            self._trip(End("idle-timeout", f"nothing came from the model for {self._limits.step_idle_s:g} s"))
        else:
            self._arm("idle", left_s, self._look_for_idleness)

    def _heartbeat(self) -> None:
        self._beat()
        self._arm("beat", HEARTBEAT_S, self._heartbeat)

    def _arm(self, name: str, delay_s: float, callback: Callable[[], object]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._clock.call_later(delay_s, callback)

    def _trip(self, end: End) -> None:
        if self._end is None and self._task is not None:
            self._end = end
            self._task.cancel()
