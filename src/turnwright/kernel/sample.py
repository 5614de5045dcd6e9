"""One step's question to the model: attempts within one budget, each on record before its request is sent (F4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from turnwright.kernel.assemble import Assembly, Reply
from turnwright.kernel.bounds import Bounds
from turnwright.kernel.compacting import Compactor, NoDigest, Place, Why
from turnwright.kernel.cost import cost_of
from turnwright.kernel.decide import End
from turnwright.kernel.dispatch import Dispatcher
from turnwright.kernel.ports import Halt, Nudge, Ports, Refused, Repeated, Reservation
from turnwright.kernel.repair import repaired
from turnwright.kernel.retry import Again, GiveUp, RetryStrategy, after_failure, is_retryable, kind_of
from turnwright.kernel.scribe import Scribe
from turnwright.kernel.spending import Charge, charge_of, whole_of
from turnwright.kernel.tiers import asked_to_think
from turnwright.kernel.verdict import verdict_of
from turnwright.schema.facts import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    ContextCompacted,
    ModelReplied,
    Note,
    RouteSwitched,
    Timing,
)
from turnwright.schema.ids import ConversationId, StepId, TurnId
from turnwright.schema.limits import Dispatch
from turnwright.schema.live import RetryWait
from turnwright.schema.messages import AssistantMessage
from turnwright.schema.modes import Course
from turnwright.schema.parts import Closed, Part, ReasoningPart, Text
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.routes import NoRoute, Route, Tried
from turnwright.schema.tiers import Tiers
from turnwright.schema.verdicts import GOOD_VERDICTS, ErrorKind, TaskClass, Verdict

DEFAULT_OUTPUT_TOKENS = 4_096
USUAL_TEMPERATURE = 0.7
"""What hosts are taken to use where none is asked for."""
TEMPERATURE_MAX = 1.0
_SPEECH: frozenset[type] = frozenset({Text, ReasoningPart})
"""The first of these is what a user waits for."""
REPETITION = "repetition"
"""The code of the fault of an attempt that was ended because it repeated itself."""
OVERFLOWED = "the conversation does not fit the model's window"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a step and what it offers."""

    conversation_id: ConversationId
    turn_id: TurnId | None
    step_id: StepId | None
    """None between two turns."""
    index: int
    specs: dict[str, ToolSpec]
    purpose: str
    course: Course = Course()
    task_class: TaskClass = "other"
    tiers: Tiers | None = None
    reasoning: bool | None = None
    aside: bool = False
    """Asked beside the conversation, for the runtime itself: its reply is neither shown nor history."""


class Sampled(msgspec.Struct, frozen=True):
    message: AssistantMessage
    verdict: Verdict


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over: what was said, how it ended, and what it took."""

    number: int
    route: Route
    reply: Reply
    closed: Closed
    verdict: Verdict
    timing: Timing
    repairs: tuple[str, ...] = ()
    repeated: bool = False
    """It was ended because it repeated itself."""

    @property
    def kind(self) -> ErrorKind | None:
        return kind_of(self.reply.error) if self.reply.error else None

    @property
    def retryable(self) -> bool:
        return not self.closed.overflow and is_retryable(self.verdict, self.closed.status, self.kind)


class Sampler:
    """Asks the model until it has an answer or a reason why there is none."""

    def __init__(
        self,
        ports: Ports,
        scribe: Scribe,
        bounds: Bounds,
        strategy: RetryStrategy,
        policy: Dispatch,
        route: str,
        waiting_for: Callable[[str], None],
        compactor: Compactor,
    ) -> None:
        self._ports = ports
        self._scribe = scribe
        self._bounds = bounds
        self._strategy = strategy
        self._policy = policy
        self._waiting_for = waiting_for
        self._compactor = compactor
        self.route = route
        """Where the last attempt of this conversation went; empty before the first."""
        self.sent_there = ""
        """Why the next attempt goes somewhere else, where nothing has failed."""

    async def sample(
        self,
        step: Step,
        prompt: Prompt,
        dispatcher: Dispatcher,
        again: Callable[[], Awaitable[Prompt]],
        nudge: Nudge | None = None,
    ) -> Sampled | End:
        """`again` makes the prompt anew, after room was made in the history or something was said in it. `nudge` is
        what a guard wants of this question."""
        tried: list[Tried] = []
        slept_s = 0.0
        made_room = False
        tools = bool(prompt.tools)
        route = self._ports.model.route(tried, tools=tools)
        if nudge is not None and nudge.delay_s > 0:
            await self._ports.clock.sleep(nudge.delay_s)
        if isinstance(route, Route) and not step.aside and self._compactor.due(route):
            made = await self.make_room(step, prompt, route, "threshold", dispatcher)
            if isinstance(made, ContextCompacted):
                prompt = await again()
            route = self._ports.model.route(tried, tools=tools)
        while True:
            if isinstance(route, NoRoute):
                return End("provider-error", route.message)
            reservation = await self._reserve(route, prompt)
            if isinstance(reservation, Refused):
                return End(reservation.reason, reservation.why)
            try:
                self._note_switch(step, route, tried)
                asked = self._thinking(step, prompt if nudge is None else warmer(prompt, nudge, route), route)
                attempt = await self._attempt(len(tried) + 1, step, route, asked, dispatcher, reservation)
                judged = self._report(attempt, step, reservation, tools)
            finally:
                reservation.settle(_whole(reservation))  # where nobody saw the end of it; else it is settled already
            if attempt.verdict in GOOD_VERDICTS and attempt.verdict != "empty":
                return self._replied(step, attempt)
            await dispatcher.drop_early()
            wanted = () if step.aside else self._scribe.hear(Nudge, Halt)
            if (stopped := self._scribe.tally.stopped) is not None:
                return End(stopped.reason, stopped.why)
            nudge = next((one for one in wanted if isinstance(one, Nudge)), None)
            tried.append(judged)
            if attempt.closed.overflow and not step.aside:
                if (why := await self._room_for_another(step, prompt, attempt, made_room, dispatcher)) is not None:
                    return End("provider-error", f"{_what_happened(attempt)}; {why}")
                made_room = True
                prompt = await again()
                continue
            following = self._ports.model.route(tried, tools=tools)
            match self._after(attempt, tried, following, slept_s, nudge):
                case GiveUp() if attempt.verdict == "empty" and not step.aside:
                    return self._replied(step, attempt)
                case GiveUp(why):
                    return End("provider-error", f"{_what_happened(attempt)}; {why}")
                case Again(delay_s):
                    await self._pause(step, attempt, delay_s)
                    slept_s += delay_s
                    route = following
                    prompt = await again() if nudge else prompt

    def _replied(self, step: Step, attempt: _Attempt) -> Sampled:
        message = attempt.reply.message
        if not step.aside:
            self._scribe.note(
                ModelReplied(turn_id=step.turn_id, step_id=step.step_id, message=message, verdict=attempt.verdict)
            )
        return Sampled(message, attempt.verdict)

    async def _room_for_another(
        self, step: Step, prompt: Prompt, attempt: _Attempt, made_room: bool, dispatcher: Dispatcher
    ) -> str | None:
        """The window is full: make room once, and ask once more (P17). Why not, where that is no use."""
        budget = self._strategy.budget
        if made_room:
            return "it did not even fit after older parts were left out"
        if attempt.reply.has_content or (budget is not None and attempt.number >= budget):
            return "no attempts are left to ask with less"
        made = await self.make_room(step, prompt, attempt.route, "overflow", dispatcher)
        return None if isinstance(made, ContextCompacted) else made

    async def make_room(
        self, step: Step, prompt: Prompt, route: Route, why: Why, dispatcher: Dispatcher
    ) -> ContextCompacted | str:
        """How it was made, or why it was not."""
        self._waiting_for("room in the model's window")

        async def digest(asking: Prompt) -> str | NoDigest:
            aside = msgspec.structs.replace(step, specs={}, purpose="compaction", aside=True)
            match await self.sample(aside, asking, dispatcher, self._never_again):
                case End() as end:
                    return NoDigest(end.detail or end.reason)
                case Sampled(message=message):
                    return message.text.strip() or NoDigest("the model asked for tools in place of a summary")

        where = Place(
            turn_id=step.turn_id,
            step_id=step.step_id,
            course=step.course,
            task_class=step.task_class,
            tiers=step.tiers,
            reasoning=step.reasoning,
        )
        return await self._compactor.make_room(where, prompt, route, why, digest)

    async def _never_again(self) -> Prompt:
        raise AssertionError("what is asked beside a conversation is asked once")

    def _after(
        self,
        attempt: _Attempt,
        tried: Sequence[Tried],
        following: Route | NoRoute,
        slept_s: float,
        nudge: Nudge | None,
    ) -> Again | GiveUp:
        """A guard that wants the model to be asked once more has its way within the budget of the step."""
        if isinstance(following, NoRoute):
            return GiveUp(following.message)
        if nudge is not None and (self._strategy.budget is None or len(tried) < self._strategy.budget):
            return Again(nudge.delay_s)
        return after_failure(
            self._strategy,
            retryable=attempt.retryable,
            kind=attempt.kind,
            no_tools=_fault(attempt).no_tools,
            had_content=attempt.reply.has_content and attempt.verdict != "empty",
            attempts=len(tried),
            on_this_route=sum(one.route == attempt.route.name for one in tried),
            rerouted=following.name != attempt.route.name,
            slept_s=slept_s,
            retry_after_s=attempt.closed.retry_after_s,
            jitter=self._ports.jitter(),
        )

    async def _pause(self, step: Step, attempt: _Attempt, delay_s: float) -> None:
        """The wait is made known first, and what failed is durable before it: it may be long."""
        await self._scribe.record()
        if delay_s <= 0:
            return
        self._waiting_for(f"a retry in {delay_s:.1f} s")
        self._ports.emit(
            RetryWait(
                conversation_id=step.conversation_id,
                turn_id=step.turn_id,
                step_id=step.step_id,
                attempt=attempt.number + 1,
                delay_s=round(delay_s, 3),
                reason=attempt.verdict,
            )
        )
        await self._ports.clock.sleep(delay_s)

    async def _attempt(
        self,
        number: int,
        step: Step,
        route: Route,
        prompt: Prompt,
        dispatcher: Dispatcher,
        reservation: Reservation,
    ) -> _Attempt:
        await self._scribe.record(
            AttemptStarted(
                turn_id=step.turn_id,
                step_id=step.step_id,
                attempt=number,
                route=route.name,
                stream=route.stream,
                purpose=step.purpose,
                reserved_tokens=reservation.tokens,
                reserved_usd=reservation.cost_usd,
                window=route.window,
                max_output=route.max_output,
                price=route.price,
                reasoning=prompt.reasoning,
            ),
        )
        self._waiting_for(f"the model ({route.name}, attempt {number})")
        self._bounds.awaiting_model()
        watch = _Stopwatch(self._ports.clock.monotonic)
        assembly = Assembly(
            new_id=lambda: self._ports.ids.new("call"),
            offered=step.specs,
            used_ids=self._scribe.history.call_ids,
            route=route.name,
            conversation_id=step.conversation_id,
            turn_id=step.turn_id,
            step_id=step.step_id,
        )

        def over(closed: Closed, cancelled: bool = False) -> _Attempt:
            reply, repairs = self._repaired(assembly.reply(), step)
            verdict = "cancelled" if cancelled else verdict_of(reply, closed)
            return _Attempt(
                number=number,
                route=route,
                reply=reply,
                closed=closed,
                verdict=verdict,
                timing=watch.timing(),
                repairs=repairs,
            )

        looker = None if step.aside else self._ports.guards.watch()
        repeated: Repeated | None = None
        closed: Closed | None = None
        try:
            async with aclosing(self._ports.model.attempt(route, prompt)) as stream:
                async for parts in stream:
                    self._bounds.progressed()
                    first_words = watch.see(parts)
                    for event in assembly.add(parts):
                        if not step.aside:
                            self._ports.emit(event)
                        if looker is not None and repeated is None:
                            repeated = looker.see(event)
                    if repeated is not None:
                        break
                    if first_words:
                        await asyncio.sleep(0)  # whoever watches sees them before the rest is read
                    if self._policy.eager and not step.aside:
                        await dispatcher.start_early(assembly.finished_calls(dispatcher.considered), step.specs)
                    if parts and isinstance(parts[-1], Closed):
                        closed = parts[-1]
        except asyncio.CancelledError:
            hung_up = over(Closed(how="transport", detail="we hung up"), cancelled=True)
            self._report(hung_up, step, reservation, bool(prompt.tools))
            raise
        finally:
            self._bounds.model_answered()
        if repeated is None and looker is not None:
            repeated = looker.end()
        if repeated is not None:
            hung_up = over(Closed(how="transport", detail=repeated.why, excerpt=repeated.segment), cancelled=True)
            return msgspec.structs.replace(hung_up, repeated=True)
        assert closed is not None, "a model's stream must end with Closed"
        return over(closed)

    def _repaired(self, reply: Reply, step: Step) -> tuple[Reply, tuple[str, ...]]:
        whole = reply.error is None and reply.finish in (None, "stop", "tool_calls", "other")
        recover = self._policy.recover_leaked and whole and not step.aside
        made = repaired(reply.message, step.specs, lambda: self._ports.ids.new("call"), recover=recover)
        return (msgspec.structs.replace(reply, message=made.message), made.done) if made.done else (reply, ())

    def _report(self, attempt: _Attempt, step: Step, reservation: Reservation, tools: bool) -> Tried:
        """Settled, on record, and known to whoever keeps the routes' health: also where we hung up, or a trial would
        never be over."""
        cost_usd = attempt.reply.cost_usd
        if cost_usd is None:
            cost_usd = cost_of(attempt.route.price, attempt.reply.usage)
        ended = _ended(attempt, step, cost_usd, estimated=attempt.reply.cost_usd is None and cost_usd is not None)
        reservation.settle(charge_of(ended, _whole(reservation)))
        self._scribe.note(ended)
        judged = _tried(attempt, tools)
        for alert in self._ports.model.judged(judged):
            self._scribe.note(Note(turn_id=step.turn_id, step_id=step.step_id, code="alert", text=alert))
        return judged

    def _note_switch(self, step: Step, route: Route, tried: Sequence[Tried]) -> None:
        before, self.route = self.route, route.name
        if before and before != route.name:
            failed = f"{len(tried)} attempts failed, the last: {tried[-1].verdict}" if tried else ""
            reason = failed or self.sent_there or "closed to requests"
            self._scribe.note(
                RouteSwitched(
                    turn_id=step.turn_id, step_id=step.step_id, before=before, after=route.name, reason=reason
                )
            )

    def _thinking(self, step: Step, prompt: Prompt, route: Route) -> Prompt:
        tier = None if step.aside else self._scribe.tally.tier.tier
        wanted = asked_to_think(step.reasoning, tier, route.reasoning)
        return prompt if wanted is None else msgspec.structs.replace(prompt, reasoning=wanted)

    async def _reserve(self, route: Route, prompt: Prompt) -> Reservation | Refused:
        estimate = self._scribe.history.estimate(route.name)
        output = prompt.max_output_tokens or route.max_output or DEFAULT_OUTPUT_TOKENS
        self._waiting_for("room in the budget")
        return await self._ports.ledger.reserve(route, estimate, output)


def _whole(reservation: Reservation) -> Charge:
    return whole_of(reservation.tokens, reservation.cost_usd)


def warmer(prompt: Prompt, nudge: Nudge, route: Route) -> Prompt:
    """A model that said nothing, or the same, is asked with more freedom; never beyond what every host takes."""
    more = nudge.warmer_if_thinking if route.reasoning else nudge.warmer
    if not more:
        return prompt
    usual = USUAL_TEMPERATURE if prompt.temperature is None else prompt.temperature
    return msgspec.structs.replace(prompt, temperature=round(max(usual, min(usual + more, TEMPERATURE_MAX)), 3))


class _Stopwatch:
    """Times of one attempt, in milliseconds and absent where nothing came (K12)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._first: float | None = None
        self._last: float | None = None
        self._longest_gap = 0.0

    def see(self, parts: Sequence[Part]) -> bool:
        """Whether these are the first words."""
        now = self._now()
        if self._last is not None:
            self._longest_gap = max(self._longest_gap, now - self._last)
        self._last = now
        if self._first is not None or _SPEECH.isdisjoint(map(type, parts)):
            return False
        self._first = now
        return True

    def timing(self) -> Timing:
        total_ms = _ms(self._now() - self._began)
        gap_ms = _ms(self._longest_gap) if self._last is not None else None
        if self._first is None:
            return Timing(total_ms=total_ms, longest_gap_ms=gap_ms)
        ttft_ms = _ms(self._first - self._began)
        return Timing(total_ms=total_ms, ttft_ms=ttft_ms, decode_ms=round(total_ms - ttft_ms, 3), longest_gap_ms=gap_ms)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _tried(attempt: _Attempt, tools: bool) -> Tried:
    return Tried(
        route=attempt.route.name,
        verdict=attempt.verdict,
        status=attempt.closed.status,
        kind=attempt.kind,
        retryable=attempt.retryable,
        stream=attempt.route.stream,
        tools=tools,
        retry_after_s=attempt.closed.retry_after_s,
        longest_gap_s=(attempt.timing.longest_gap_ms or 0.0) / 1000,
    )


def _ended(attempt: _Attempt, step: Step, cost_usd: float | None, estimated: bool) -> AttemptEnded:
    reply, good = attempt.reply, attempt.verdict in GOOD_VERDICTS
    return AttemptEnded(
        turn_id=step.turn_id,
        step_id=step.step_id,
        attempt=attempt.number,
        route=attempt.route.name,
        verdict=attempt.verdict,
        timing=attempt.timing,
        finish_raw=reply.finish_raw,
        finish=reply.finish,
        usage=reply.usage,
        cost_usd=cost_usd,
        cost_estimated=estimated,
        fault=None if good and not attempt.closed.overflow else _fault(attempt),
        request_id=attempt.closed.request_id,
        model=reply.model,
        repairs=attempt.repairs,
        bytes_in=attempt.closed.bytes_in,
        replaced=attempt.closed.replaced,
        partial_text="" if good else reply.message.text,
        purpose=step.purpose,
    )


def _fault(attempt: _Attempt) -> AttemptFault:
    error, closed = attempt.reply.error, attempt.closed
    return AttemptFault(
        message=error.message if error else closed.detail or (OVERFLOWED if closed.overflow else attempt.verdict),
        kind=attempt.kind,
        status=closed.status,
        code=REPETITION if attempt.repeated else error.code if error else "",
        excerpt=closed.excerpt,
        stall=closed.stall,
        retry_after_s=closed.retry_after_s,
        overflow=closed.overflow,
        no_tools=error is not None and error.no_tools,
    )


def _what_happened(attempt: _Attempt) -> str:
    fault = _fault(attempt)
    status = f" (status {fault.status})" if fault.status and fault.status >= 300 else ""
    return f"{attempt.route.name}: {attempt.verdict}{status}: {fault.message}"
