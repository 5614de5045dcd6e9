"""Run the calls of one reply: in batches, within the policy, each start on disk before it happens (K8 to K10)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import msgspec

from turnwright.kernel.history import interrupted_text
from turnwright.kernel.ports import Block, Delegation, Ports, Question, Truncate
from turnwright.kernel.preview import preview_of
from turnwright.kernel.scribe import Scribe
from turnwright.kernel.subagent import result_of
from turnwright.schema.errors import ToolFailure
from turnwright.schema.facts import ApprovalAnswered, ApprovalAsked, Fact, Note, ToolEnded, ToolStarted
from turnwright.schema.ids import CallId, ConversationId, StepId, TurnId
from turnwright.schema.limits import Dispatch
from turnwright.schema.live import ToolOutput
from turnwright.schema.messages import ToolCall
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import NO_ANSWER, Asks, Ready, ToolOutcome, Unfit
from turnwright.schema.verdicts import Effect, idempotency_of

SEEN_CHARS = 2_000

_abandoned: set[asyncio.Task[ToolEnded]] = set()
"""Tools that would not stop. Held so that their tasks are not collected while they run; each leaves when it ends."""


class Planned(msgspec.Struct, frozen=True):
    """A call that may be executed. `same` are identical reads of this step that share its result."""

    call: ToolCall
    arguments: dict[str, Any]
    effect: Effect
    together: bool
    asks: Asks | None = None
    note: Note | None = None
    """On record with its start."""
    same: tuple[ToolCall, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    call: ToolCall
    problem: str
    guard: str = ""
    """Who forbade it."""
    note: Note | None = None


def plan(
    calls: Sequence[ToolCall],
    checked: Mapping[CallId, Ready | Unfit | Asks],
    specs: Mapping[str, ToolSpec],
    forbidden: Mapping[CallId, Block | Truncate],
) -> tuple[list[list[Planned]], list[Refused]]:
    """Batches in order, and the calls that are not executed. Neighbouring calls that may run together form a batch;
    any other runs alone. Identical reads are merged, calls with effects never."""
    batches: list[list[Planned]] = []
    refused: list[Refused] = []
    first_alike: dict[tuple[str, str], int] = {}
    flat: list[Planned] = []
    for call in calls:
        ready = checked[call.id]
        if call.id in forbidden:
            by = forbidden[call.id]
            refused.append(Refused(call, f"not executed: {by.why}", by.guard))
            continue
        if isinstance(ready, Unfit):
            refused.append(Refused(call, ready.problem, note=ready.note))
            continue
        spec = specs[call.name]
        alike = (call.name, call.arguments)
        if spec.effect == "reads" and alike in first_alike:
            at = first_alike[alike]
            flat[at] = msgspec.structs.replace(flat[at], same=(*flat[at].same, call))
            continue
        if spec.effect == "reads":
            first_alike[alike] = len(flat)
        asks = ready if isinstance(ready, Asks) else None
        together = (spec.effect == "reads" or spec.concurrent) and asks is None
        note = ready.note if isinstance(ready, Ready) else None
        flat.append(Planned(call, ready.arguments, spec.effect, together, asks, note))
        if spec.effect != "reads":
            # What a read saw before an effect is not what it would see after.
            first_alike.clear()
    for planned in flat:
        if planned.together and batches and batches[-1][-1].together:
            batches[-1].append(planned)
        else:
            batches.append([planned])
    return batches, refused


class CallContext:
    """What one running tool may use (`ToolContext`), and what was seen of it should it be interrupted."""

    def __init__(self, dispatcher: Dispatcher, call_id: CallId) -> None:
        self.turn_id = dispatcher.turn_id
        self.step_id = dispatcher.step_id
        self.call_id = call_id
        self._dispatcher = dispatcher
        self._seen: deque[str] = deque()
        self._seen_chars = 0

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        self._seen.append(text[-SEEN_CHARS:])
        self._seen_chars += len(self._seen[-1])
        while self._seen_chars - len(self._seen[0]) > SEEN_CHARS:
            self._seen_chars -= len(self._seen.popleft())
        self._dispatcher.ports.emit(
            ToolOutput(
                conversation_id=self._dispatcher.conversation_id,
                turn_id=self.turn_id,
                step_id=self.step_id,
                call_id=self.call_id,
                text=text,
                stream=stream,
            )
        )

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        return await self._dispatcher.ask(self.call_id, question, choices)

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        return await self._dispatcher.delegate(self, wanted)

    @property
    def seen(self) -> str:
        return "".join(self._seen)[-SEEN_CHARS:]


class Dispatcher:
    """The calls of one step. Results are recorded as each tool ends and enter history in call order."""

    def __init__(
        self,
        ports: Ports,
        scribe: Scribe,
        policy: Dispatch,
        conversation_id: ConversationId,
        turn_id: TurnId,
        step_id: StepId,
        asking: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`asking` is held while the user is asked."""
        self.ports = ports
        self._asking = asking
        self.conversation_id = conversation_id
        self.turn_id = turn_id
        self.step_id = step_id
        self._scribe = scribe
        self._width = policy.max_concurrent
        self._running: dict[asyncio.Task[ToolEnded], tuple[Planned, CallContext, float]] = {}
        self._one_ends: asyncio.Future[None] | None = None
        self._early: set[CallId] = set()
        self.considered = 0
        """How many calls of the streaming reply `start_early` has seen."""
        self._may_start_early = True
        self._over = False
        """The calls were interrupted: what one of them still does is no part of the turn any more."""

    async def run(
        self, calls: Sequence[ToolCall], specs: Mapping[str, ToolSpec], forbidden: Mapping[CallId, Block | Truncate]
    ) -> None:
        """Every call gets its result, whatever happens to it. Only cancellation and a broken journal leave early."""
        todo = [call for call in calls if call.id not in self._early]
        batches, refused = plan(todo, {call.id: self.check(call, specs) for call in todo}, specs, forbidden)
        for one in refused:
            if one.note is not None:
                self._scribe.note(self._stamp(one.note, one.call.id))
            outcome = ToolOutcome(output=one.problem, detail={"guard": one.guard} if one.guard else {})
            self._scribe.note(self._ended(one.call, outcome, 0.0, outcome_as="refused"))
        try:
            while self._running:
                await self._next_end()
            for batch in batches:
                allowed = batch if batch[0].asks is None else await self._allowed(batch[0], batch[0].asks)
                if allowed:
                    await self._run_batch(allowed)
        except BaseException:
            await self._interrupt()
            raise

    def check(self, call: ToolCall, specs: Mapping[str, ToolSpec]) -> Ready | Unfit | Asks:
        if call.problem:
            return Unfit(call.problem)
        if call.name not in specs:
            return self._not_offered(call, specs)
        return self.ports.tools.check(call.name, call.arguments)

    async def start_early(self, calls: Sequence[ToolCall], specs: Mapping[str, ToolSpec]) -> None:
        """Start reads while the reply that asks for them still streams (`dispatch.eager`). From the first call with an
        effect on nothing starts early: a read behind it must see what it did."""
        for call in calls:
            self.considered += 1
            ready = self.check(call, specs)
            reads = isinstance(ready, Ready) and specs[call.name].effect == "reads"
            self._may_start_early = self._may_start_early and (reads or isinstance(ready, Unfit))
            if isinstance(ready, Ready) and self._may_start_early:
                self._early.add(call.id)
                await self._start([Planned(call, ready.arguments, "reads", True, note=ready.note)])

    async def drop_early(self) -> None:
        """The reply failed: what was started for it is stopped, and its results belong to no call."""
        await self._interrupt()
        self._early.clear()
        self.considered, self._may_start_early = 0, True

    async def ask(
        self,
        call_id: CallId,
        question: str,
        choices: Sequence[str],
        tool: str = "",
        segment: str = "",
        rule: str = "",
    ) -> str | None:
        """The question is on record before it is put, the answer before it is used. What the user said before a crash
        is not asked again."""
        if (known := self._scribe.history.answer_from_before(call_id, question)) is not None:
            return known
        approval_id = self.ports.ids.new("approval")
        asked = ApprovalAsked(
            approval_id=approval_id,
            question=question,
            choices=tuple(choices),
            tool=tool,
            segment=segment,
            rule=rule,
        )
        await self._scribe.record(self._stamp(asked, call_id))
        put = Question(
            approval_id=approval_id,
            conversation_id=self.conversation_id,
            text=question,
            choices=tuple(choices),
            tool=tool,
            segment=segment,
            rule=rule,
        )
        with self._asking():
            answer = await self.ports.ask(put)
        await self._scribe.record(
            self._stamp(
                ApprovalAnswered(
                    approval_id=approval_id,
                    answer=answer or "",
                    by="nobody" if answer is None else "user",
                    segment=segment,
                    rule=rule,
                ),
                call_id,
            )
        )
        return answer

    async def delegate(self, context: CallContext, wanted: Delegation) -> ToolOutcome:
        """A subagent is on record before anything of it happens, and its end before its answer is used."""
        if self.ports.subagents is None:
            raise ToolFailure("No subagent can be sent from here.", remedy="Do it yourself.")
        async with self.ports.subagents.place(wanted, context) as subagent:
            await self._scribe.record(self._stamp(subagent.started, context.call_id))
            try:
                # It has limits of its own: the time that it takes is not the step's.
                with self._asking():
                    ended = await subagent.run()
            except BaseException:
                if subagent.ended is not None and not self._over:
                    self._scribe.note(self._stamp(subagent.ended, context.call_id))
                raise
            await self._scribe.record(self._stamp(ended, context.call_id))
        return result_of(ended)

    async def _allowed(self, planned: Planned, asks: Asks) -> Sequence[Planned]:
        """A call that needs a yes runs alone, once that is on record; otherwise the model reads why it did not. What
        was answered a moment ago may have settled it already."""
        call = planned.call
        if asks.settled is not None and (now := asks.settled()) is not None:
            return [msgspec.structs.replace(planned, note=now.note)]
        answer = await self.ask(call.id, asks.question, asks.choices, call.name, asks.segment, asks.rule)
        if answer in asks.grants:
            return [planned]
        why = f"the user said: {answer}"
        if answer is None:
            why = f"{NO_ANSWER}. {asks.remedy}" if asks.remedy else NO_ANSWER
        for refused in (call, *planned.same):
            self._scribe.note(self._ended(refused, ToolOutcome(output=f"not executed: {why}"), 0.0, "refused"))
        return []

    async def _run_batch(self, batch: Sequence[Planned]) -> None:
        waiting = deque(batch)
        first = [waiting.popleft() for _ in range(min(len(waiting), self._width or len(waiting)))]
        await self._start(first)
        while self._running:
            await self._next_end(more_to_come=bool(waiting))
            while waiting and (not self._width or len(self._running) < self._width):
                await self._start([waiting.popleft()])

    async def _start(self, planned: Iterable[Planned]) -> None:
        started = list(planned)
        notes = [self._stamp(one.note, one.call.id) for one in started if one.note is not None]
        await self._scribe.record(*notes, *(self._started(one) for one in started))
        for one in started:
            if one.effect == "writes":
                self._preview(one)
            context = CallContext(self, one.call.id)
            began = self.ports.clock.monotonic()
            self._running[asyncio.create_task(self._execute(one, context, began))] = (one, context, began)

    def _preview(self, planned: Planned) -> None:
        """For whoever watches: a file's new text would otherwise only be seen afterwards."""
        call = planned.call
        shown = preview_of(call.id, call.name, planned.arguments)
        self.ports.emit(
            msgspec.structs.replace(
                shown, conversation_id=self.conversation_id, turn_id=self.turn_id, step_id=self.step_id
            )
        )

    async def _execute(self, planned: Planned, context: CallContext, began: float) -> ToolEnded:
        try:
            outcome = await self.ports.tools.run(planned.call.name, planned.arguments, context)
            return self._ended(planned.call, outcome, began)
        finally:
            if self._one_ends is not None:
                _resolve(self._one_ends)

    async def _next_end(self, more_to_come: bool = False) -> None:
        """Record whatever has ended. The last of a batch may wait for the fact that follows at once."""
        for task in await self._some_ended():
            planned, _, _ = self._running.pop(task)
            ended = task.result()
            self._scribe.note(ended)
            for twin in planned.same:
                self._scribe.note(
                    msgspec.structs.replace(ended, call_id=twin.id, detail={"shared_with": ended.call_id})
                )
        if self._running or more_to_come:
            await self._scribe.record()

    async def _some_ended(self) -> Sequence[asyncio.Task[ToolEnded]]:
        """At least one, in the order of their starts. `asyncio.wait` would cost every tool one more turn of the event
        loop, for a callback of its own."""
        while not (ended := [task for task in self._running if task.done()]):
            self._one_ends = asyncio.get_running_loop().create_future()
            try:
                await self._one_ends
            finally:
                self._one_ends = None
        return ended

    async def _interrupt(self) -> None:
        """Stop everything that runs, wait a little, and say of each what had started."""
        for task in self._running:
            task.cancel()
        await self._wait_for_stops()
        self._over = True
        for task, (planned, context, began) in self._running.items():
            if task.done() and not task.cancelled() and task.exception() is None:
                self._scribe.note(task.result())
                continue
            if not task.done():
                _abandoned.add(task)
                task.add_done_callback(_forget)
            said = interrupted_text(self.step_id)
            seen = f"{context.seen}\n[{said}]" if context.seen else said
            self._scribe.note(self._ended(planned.call, ToolOutcome(output=seen), began, outcome_as="interrupted"))
        self._running.clear()

    async def _wait_for_stops(self) -> None:
        if not self._running:
            return
        patience: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.ports.clock.call_later(self.ports.abandon_after_s, lambda: _resolve(patience))
        pending: set[asyncio.Future[Any]] = set(self._running)
        while pending and not patience.done():
            done, _ = await asyncio.wait({*pending, patience}, return_when=asyncio.FIRST_COMPLETED)
            pending -= done
        timer.cancel()

    def _started(self, planned: Planned) -> ToolStarted:
        return ToolStarted(
            turn_id=self.turn_id,
            step_id=self.step_id,
            call_id=planned.call.id,
            name=planned.call.name,
            arguments=planned.call.arguments,
            effect=planned.effect,
            idempotency=idempotency_of(planned.effect),
        )

    def _ended(
        self,
        call: ToolCall,
        outcome: ToolOutcome,
        began: float,
        outcome_as: Literal["refused", "interrupted"] | None = None,
    ) -> ToolEnded:
        return ToolEnded(
            turn_id=self.turn_id,
            step_id=self.step_id,
            call_id=call.id,
            name=call.name,
            outcome=outcome_as or outcome.outcome,
            output=outcome.output,
            images=outcome.images,
            duration_ms=0.0 if outcome_as == "refused" else _ms(self.ports.clock.monotonic() - began),
            original_bytes=outcome.original_bytes,
            detail=outcome.detail,
        )

    def _not_offered(self, call: ToolCall, specs: Mapping[str, ToolSpec]) -> Unfit:
        """A tool that exists but is not offered in this mode gets told so; an unknown one its nearest names."""
        known = self.ports.tools.check(call.name, call.arguments)
        if isinstance(known, Unfit):
            return known
        names = ", ".join(specs) or "none"
        return Unfit(f"the tool {call.name!r} is not offered in this step; offered: {names}")

    def _stamp(self, fact: Fact, call_id: CallId) -> Fact:
        return msgspec.structs.replace(fact, turn_id=self.turn_id, step_id=self.step_id, call_id=call_id)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _forget(task: asyncio.Task[ToolEnded]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
