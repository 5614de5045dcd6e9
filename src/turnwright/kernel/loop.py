"""The turn loop: the only one. Resume, replay and subagents are this loop with other ports or another start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from turnwright.kernel.bounds import Bounds, Stopped
from turnwright.kernel.compacting import Compactor
from turnwright.kernel.decide import Act, AskAgain, End, decide
from turnwright.kernel.direction import Direction, Request
from turnwright.kernel.dispatch import Dispatcher
from turnwright.kernel.history import History, interrupted_text
from turnwright.kernel.limits import Exhausted, Fine, Stage, Tally, Warned, WrapUp, stage_of
from turnwright.kernel.ports import (
    LOOKED,
    Block,
    ForceAnswer,
    Halt,
    Judgement,
    NoRoute,
    Nudge,
    Ports,
    Record,
    Saved,
    Truncate,
    Unsaved,
    Warn,
)
from turnwright.kernel.prefix import bought_again, changed_segments
from turnwright.kernel.retry import strategy_for
from turnwright.kernel.sample import Sampled, Sampler, Step
from turnwright.kernel.scribe import Scribe
from turnwright.kernel.subagent import left_behind, result_of
from turnwright.schema.errors import JournalError, MachineError
from turnwright.schema.facts import (
    ContextCompacted,
    Note,
    SteeringDelivered,
    StepStarted,
    SubagentEnded,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    WorkspaceSaved,
)
from turnwright.schema.ids import ConversationId, StepId, TurnId, step_id
from turnwright.schema.limits import Compaction, Dispatch, Limits, Retry, Rules, check_limits, recorded_rules
from turnwright.schema.live import Heartbeat, TurnSealed
from turnwright.schema.messages import AssistantMessage, Image, RuntimeMessage, ToolCall
from turnwright.schema.modes import Course
from turnwright.schema.parts import Usage
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.sandbox import Confinement
from turnwright.schema.tiers import Tier, Tiers
from turnwright.schema.verdicts import Effect, StopReason, TaskClass, Verdict

CHANGES: frozenset[Effect] = frozenset({"writes", "runs"})
"""Effects after which the workspace may be another."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One input and the rules for answering it. `history` is what came before; `begun` is set when this very turn was
    interrupted, and carries what it had used."""

    conversation_id: ConversationId
    turn_id: TurnId
    text: str
    history: History
    images: tuple[Image, ...] = ()
    mode: str = "build"
    course: Course = Course()
    """The modes that follow."""
    limits: Limits = Limits()
    retry: Retry = Retry()
    dispatch: Dispatch = Dispatch()
    compaction: Compaction = Compaction()
    inbox_ids: tuple[str, ...] = ()
    continued: bool = False
    begun: Tally | None = None
    task_class: TaskClass = "other"
    task_signals: tuple[str, ...] = ()
    tiers: Tiers | None = None
    tier: Tier | None = None
    reasoning: bool | None = None
    purpose: str = "turn"
    """What its model calls are metered as."""
    route: str = ""
    """The route of the conversation's last attempt: another one now is a switch, and is recorded."""
    confinement: Confinement | None = None
    """What confines its tools' commands, for the record."""


class TurnOutcome(msgspec.Struct, frozen=True, kw_only=True):
    reason: StopReason
    detail: str
    usage: Usage
    cost_usd: float | None
    steps: int
    context_size: int | None
    text: str
    denials: int
    route: str
    """Where the last attempt went."""
    mode: str
    """In which it ended."""
    tier: Tier | None


async def run_turn(turn: Turn, ports: Ports, record: Record) -> TurnOutcome:
    """Answer one input: sample, act, repeat, until there is a stated reason to stop."""
    running = _RunningTurn(turn, ports, record)
    try:
        await running.open()
        with running.bounds:
            end = await running.take_steps()
    except Stopped as stopped:
        end = stopped.end
    except JournalError:
        raise  # nothing more can be promised, not even that the turn has ended
    except asyncio.CancelledError:
        await running.close(End("cancelled", "the task that ran the turn was cancelled"))
        raise
    except BaseException as bug:
        await running.close(End("internal-error", f"{type(bug).__name__}: {bug}"))
        raise
    return await running.close(end)


async def compact(turn: Turn, ports: Ports, record: Record) -> ContextCompacted | str:
    """Between two turns, because the user asks for it: with the sampling and the limits of a step. How, or why not."""
    running = _RunningTurn(turn, ports, record)
    try:
        with running.bounds:
            made = await running.make_room()
    except Stopped as stopped:
        made = stopped.end.detail or stopped.end.reason
    await running.scribe.record()
    return made


class _RunningTurn:
    def __init__(self, turn: Turn, ports: Ports, record: Record) -> None:
        check_limits(turn.limits)
        self.turn = turn
        self.ports = ports
        self.tally = turn.begun or Tally(mode=turn.mode)
        self.scribe = Scribe(record, turn.history, self.tally, ports.guards)
        self.bounds = Bounds(turn.limits, ports.clock, ports.cancel, self.beat)
        self.sampler = Sampler(
            ports,
            self.scribe,
            self.bounds,
            strategy_for(turn.retry),
            turn.dispatch,
            turn.route,
            self.now_waiting_for,
            Compactor(self.scribe, turn.compaction, self.effects),
        )
        self.direction = Direction(
            Request(
                turn_id=turn.turn_id,
                text=turn.text,
                course=turn.course,
                tiers=turn.tiers,
                carried=turn.tier,
                route=turn.route,
            ),
            ports,
            self.scribe,
            self.sampler,
        )
        self.began = ports.clock.monotonic()
        self.waiting_for = "the first step"
        self.version_after: StepId | None = None
        """The step after which the workspace is being saved; None: before the turn."""
        self.nudge: Nudge | None = None
        """How the next step's question differs from the usual."""
        self.offered: tuple[ToolSpec, ...] = ()
        self.specs: dict[str, ToolSpec] = {}

    async def open(self) -> None:
        await self.say_it_begins()
        self.direction.choose_tier()
        self.begin_version()

    async def say_it_begins(self) -> None:
        turn = self.turn
        if turn.begun is not None:
            await self.scribe.record(
                Note(
                    turn_id=turn.turn_id,
                    code="turn-resumed",
                    text="carried on from the last durable step",
                    data=self.rules(),
                )
            )
            return
        await self.scribe.record(
            TurnStarted(
                turn_id=turn.turn_id,
                text=turn.text,
                images=turn.images,
                mode=turn.mode,
                continued=turn.continued,
                inbox_ids=turn.inbox_ids,
                max_tokens=turn.limits.max_tokens,
                max_cost_usd=turn.limits.max_cost_usd,
                rules=self.rules(),
                task_class=turn.task_class,
                task_signals=turn.task_signals,
                course=turn.course,
                tiers=turn.tiers,
                tier=turn.tier,
                reasoning=turn.reasoning,
                confinement=turn.confinement,
            )
        )

    def rules(self) -> dict[str, str | int | float | bool | None]:
        turn = self.turn
        return recorded_rules(
            Rules(limits=turn.limits, retry=turn.retry, dispatch=turn.dispatch, compaction=turn.compaction)
        )

    async def take_steps(self) -> End:
        """The loop. Each pass is one step: limits and guards, context, sample, decide, act."""
        end = await self.pick_up_where_it_broke_off()
        while end is None:
            last = None
            match self.may_go_on():
                case Exhausted(reason, why):
                    return End(reason, why)
                case WrapUp(reason, why):
                    last = End(reason, why)
                    self.ask_for_summary(last)
                case Warned(reason, why):
                    self.warn(reason, why)
                    self.deliver_steering()
                case Fine():
                    self.deliver_steering()
            if last is None:
                self.direction.before_step()
            step = self.begin_step(offer_tools=last is None)
            in_step = step_id(self.turn.turn_id, step.index)
            dispatcher = self.dispatcher_for(self.turn.turn_id, in_step)
            prompt = await self.prompt_for(step)
            nudge, self.nudge = self.nudge, None
            match await self.sampler.sample(step, prompt, dispatcher, self.prompt_again, nudge):
                case End() as failed:
                    return failed
                case Sampled(message, verdict):
                    self.hear_of_reply(message, verdict)
                    match decide(message, verdict, last or self.stopped(), self.tally.nudged, self.direction.next_mode):
                        case End() as end:
                            await dispatcher.drop_early()
                        case AskAgain():
                            pass
                        case Act(calls):
                            await self.act(in_step, dispatcher, calls)
        return end

    def may_go_on(self) -> Stage:
        self.heard(self.scribe.hear(Warn, Nudge, ForceAnswer, Halt))
        if self.tally.stopped is not None:
            return self.tally.stopped
        elapsed_s = self.ports.clock.monotonic() - self.began
        stage = stage_of(self.tally, self.turn.limits, elapsed_s, self.ports.ledger.standings())
        return stage if isinstance(stage, Exhausted) else self.tally.wrapping_up or stage

    def hear_of_reply(self, message: AssistantMessage, verdict: Verdict) -> None:
        """A reply that would end the turn is judged at once; where there are calls to run, their results come first."""
        if message.calls and verdict != "length":
            self.scribe.hear(Halt)
        else:
            self.heard(self.scribe.hear(Nudge, ForceAnswer, Halt))

    def heard(self, said: Sequence[Judgement]) -> None:
        self.nudge = next((one for one in said if isinstance(one, Nudge)), self.nudge)

    def stopped(self) -> End | None:
        stopped = self.tally.stopped
        return End(stopped.reason, stopped.why) if stopped else None

    def ask_for_summary(self, last: End) -> None:
        """At most once: the tally remembers, also across a crash. A guard has already said its own words."""
        if self.tally.wrapping_up is not None:
            return
        said = RuntimeMessage(
            code="wrap-up",
            text=f"This turn is at its limit ({last.reason}: {last.detail}). No tools are available any more. "
            "Answer now: what was done, what was found, and what is left to do.",
        )
        self.scribe.note(
            Note(turn_id=self.turn.turn_id, code="wrap-up", text=last.detail, said=said, data={"reason": last.reason})
        )

    def warn(self, reason: StopReason, why: str) -> None:
        """Once for each limit: the tally remembers, also across a crash."""
        self.scribe.note(Note(turn_id=self.turn.turn_id, code="budget-warning", text=why, data={"reason": reason}))

    def deliver_steering(self) -> None:
        """Between steps only: what comes after the last step opens the next turn (K11)."""
        if self.tally.steps == 0:
            return
        letters = self.ports.inbox.take()
        if letters:
            self.scribe.note(
                SteeringDelivered(
                    turn_id=self.turn.turn_id,
                    text="\n\n".join(letter.text for letter in letters),
                    inbox_ids=tuple(letter.inbox_id for letter in letters),
                )
            )

    def begin_step(self, offer_tools: bool) -> Step:
        offered = self.ports.tools.offered(self.tally.mode) if offer_tools else ()
        if offered is not self.offered:
            self.offered, self.specs = offered, {spec.name: spec for spec in offered}
        index = self.tally.steps
        self.bounds.step_begins()
        return Step(
            conversation_id=self.turn.conversation_id,
            turn_id=self.turn.turn_id,
            step_id=step_id(self.turn.turn_id, index),
            index=index,
            specs=self.specs,
            purpose=self.turn.purpose,
            course=self.turn.course,
            task_class=self.turn.task_class,
            tiers=self.turn.tiers,
            reasoning=self.turn.reasoning,
        )

    async def prompt_for(self, step: Step) -> Prompt:
        """What the model is to see; the step is on record with the hashes of its stable segments (R6)."""
        prompt = await self.prompt_again()
        history, context = self.turn.history, self.ports.context
        segments = context.segments(prompt)
        if history.taken_up or (self.offered and changed_segments(history.segments, segments)):
            self.say_what_it_costs(segments)
        self.scribe.note(
            StepStarted(
                turn_id=step.turn_id,
                step_id=step.step_id,
                index=step.index,
                tools_offered=bool(self.offered),
                mode=self.tally.mode,
                next_mode=self.direction.next_mode,
                segments={**segments, "history": history.hash()},
                prefix_chars=context.prefix_chars(prompt),
            )
        )
        return prompt

    def say_what_it_costs(self, segments: dict[str, str]) -> None:
        """Another process carries on, or other tools have come: what is not sent again as it was is not in the
        provider's cache (R6)."""
        history = self.turn.history
        history.taken_up = False
        route = self.ports.model.route((), tools=bool(self.offered))
        if isinstance(route, NoRoute) or (bought := bought_again(history, segments, route, self.turn.route)) is None:
            return
        self.scribe.note(Note(turn_id=self.turn.turn_id, code="prefix-changed", text=bought.text, data=bought.data))

    def effects(self) -> dict[str, Effect]:
        return {spec.name: spec.effect for spec in self.ports.tools.offered("build")}

    async def prompt_again(self) -> Prompt:
        return await self.ports.context.prompt(self.turn.history, self.offered, self.tally.mode)

    def dispatcher_for(self, turn_id: TurnId, in_step: StepId) -> Dispatcher:
        return Dispatcher(
            self.ports,
            self.scribe,
            self.turn.dispatch,
            self.turn.conversation_id,
            turn_id,
            in_step,
            self.bounds.asking,
        )

    async def look_for_guards(self, in_step: StepId) -> None:
        """A guard judges by facts: what it must know of the workspace is made one, before the calls run."""
        look_into = self.ports.look_into
        for wanted in self.scribe.wants_to_know():
            if look_into is None:
                continue
            found, text = "", None
            try:
                for path in wanted.paths:
                    if (text := await look_into(path)) is not None:
                        found = path
                        break
            except (OSError, MachineError):
                continue  # it cannot be told, so nothing is forbidden for it
            self.scribe.note(
                Note(
                    turn_id=self.turn.turn_id,
                    step_id=in_step,
                    call_id=wanted.call_id,
                    code=LOOKED,
                    text=f"looked for {' or '.join(wanted.paths)}: {found or 'there is none'}",
                    data={"path": found, **(wanted.digest(text) if text is not None else {})},
                )
            )

    async def act(self, in_step: StepId, dispatcher: Dispatcher, calls: tuple[ToolCall, ...]) -> None:
        self.now_waiting_for("tools: " + ", ".join(call.name for call in calls[:4]))
        await self.look_for_guards(in_step)
        await self.run_calls(in_step, dispatcher, calls)

    async def run_calls(self, in_step: StepId, dispatcher: Dispatcher, calls: Sequence[ToolCall]) -> None:
        changing = any(call.name in self.specs and self.specs[call.name].effect in CHANGES for call in calls)
        if changing:
            await self.record_version()
        await dispatcher.run(calls, self.specs, self.scribe.not_to_run())
        if changing:
            self.begin_version(in_step)

    def begin_version(self, after: StepId | None = None) -> None:
        """The workspace is saved beside the next request: nobody waits for it but the next call that may change it."""
        if self.ports.versions is not None:
            self.version_after = after
            self.ports.versions.begin()

    async def record_version(self) -> None:
        saved = None if self.ports.versions is None else await self.ports.versions.settled()
        turn_id, after = self.turn.turn_id, self.version_after
        match saved:
            case Saved(tree, files):
                self.scribe.note(WorkspaceSaved(turn_id=turn_id, step_id=after, tree=tree, files=files))
            case Unsaved(why):
                self.scribe.note(Note(turn_id=turn_id, step_id=after, code="workspace-not-saved", text=why))
            case None:
                pass

    async def make_room(self) -> ContextCompacted | str:
        step = msgspec.structs.replace(self.begin_step(offer_tools=True), turn_id=None, step_id=None)
        route = self.ports.model.route((), tools=bool(self.offered))
        if isinstance(route, NoRoute):
            return route.message
        idle = self.dispatcher_for(self.turn.turn_id, step_id(self.turn.turn_id, 0))
        return await self.sampler.make_room(step, await self.prompt_again(), route, "asked", idle)

    async def pick_up_where_it_broke_off(self) -> End | None:
        """A turn that died goes on with the calls of its last reply: what is done stays done, what merely reads is
        repeated, and of anything else that had started the model is told that its outcome is unknown (R2)."""
        reply = self.turn.history.last_reply
        if self.turn.begun is None or reply is None:
            return None
        self.begin_step(offer_tools=True)
        left: list[ToolCall] = []
        for call, state in self.turn.history.open_calls():
            if state in ("not-started", "repeatable"):
                left.append(call)
            elif state == "unknown":
                subagent = self.turn.history.subagent_of(call.id)
                self.scribe.note(_as_it_was_left(call, subagent, reply.turn_id, reply.step_id))
        wrapping_up = self.tally.wrapping_up
        last = End(wrapping_up.reason, wrapping_up.why) if wrapping_up else None
        self.hear_of_reply(reply.message, reply.verdict)
        match decide(reply.message, reply.verdict, last or self.stopped(), self.tally.nudged, self.direction.next_mode):
            case End() as end:
                return end
            case AskAgain():
                return None
            case Act():
                where = reply.turn_id or "", reply.step_id or ""
                await self.look_for_guards(where[1])
                dispatcher = self.dispatcher_for(*where)
                await self.run_calls(where[1], dispatcher, left)
                return None

    async def close(self, end: End) -> TurnOutcome:
        """`turn.ended` is the last fact on every path; it is sealed once it is durable (K3)."""
        tally = self.tally
        if end.reason not in ("cancelled", "internal-error"):
            await self.record_version()
        if end.reason == "stop" and tally.denials:
            end = End("needs-user", f"{tally.denials} questions had nobody to answer them")
        self.scribe.hear(Warn, Block, Truncate, Nudge, ForceAnswer, Halt)
        ended = self.ended(end)
        try:
            self.scribe.judge(ended)
        except BaseException as bug:
            await self.seal(self.ended(End("internal-error", f"{type(bug).__name__}: {bug}")))
            raise
        await self.seal(ended)
        return TurnOutcome(
            reason=end.reason,
            detail=end.detail,
            usage=tally.usage,
            cost_usd=tally.cost_usd,
            steps=tally.steps,
            context_size=tally.context_size,
            text=tally.text,
            denials=tally.denials,
            route=self.sampler.route,
            mode=tally.mode,
            tier=tally.tier.tier,
        )

    def ended(self, end: End) -> TurnEnded:
        tally = self.tally
        return TurnEnded(
            turn_id=self.turn.turn_id,
            reason=end.reason,
            detail=end.detail,
            steps=tally.steps,
            usage=tally.usage,
            cost_usd=tally.cost_usd,
            context_size=tally.context_size,
            text=tally.text,
        )

    async def seal(self, ended: TurnEnded) -> None:
        await self.scribe.record(ended)
        turn = self.turn
        self.ports.emit(TurnSealed(conversation_id=turn.conversation_id, turn_id=turn.turn_id, reason=ended.reason))

    def now_waiting_for(self, what: str) -> None:
        self.waiting_for = what

    def beat(self) -> None:
        self.ports.emit(
            Heartbeat(
                conversation_id=self.turn.conversation_id,
                turn_id=self.turn.turn_id,
                step=self.tally.steps,
                elapsed_s=round(self.ports.clock.monotonic() - self.began, 1),
                waiting_for=self.waiting_for,
            )
        )


def _as_it_was_left(
    call: ToolCall, subagent: SubagentEnded | None, turn_id: TurnId | None, in_step: str | None
) -> ToolEnded:
    """Unknown, unless it was a subagent's whose end is on record."""
    ended = ToolEnded(
        turn_id=turn_id,
        step_id=in_step,
        call_id=call.id,
        name=call.name,
        outcome="unknown",
        output=interrupted_text(in_step or ""),
    )
    if subagent is None:
        return ended
    if subagent.reason is None:
        return msgspec.structs.replace(ended, output=f"{ended.output} {left_behind(subagent)}")
    known = result_of(subagent)
    return msgspec.structs.replace(ended, outcome=known.outcome, output=known.output, detail=known.detail)
