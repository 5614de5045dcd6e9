"""The loop's ports, answering from a tape: each gives what it gave then, once the facts before it are there."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol, TypeAlias, assert_never

import msgspec

from turnwright.kernel.history import interrupted_text
from turnwright.kernel.modes import text_of
from turnwright.kernel.ports import (
    Asks,
    Block,
    Conversation,
    Delegation,
    ForceAnswer,
    Halt,
    Judgement,
    Letter,
    NoRoute,
    Nudge,
    Ports,
    Question,
    Ready,
    Refused,
    Repeated,
    Route,
    Saved,
    ToolContext,
    ToolOutcome,
    Tried,
    Truncate,
    Unfit,
    Unsaved,
    Warn,
    Watch,
)
from turnwright.kernel.sample import REPETITION
from turnwright.kernel.spending import Charge, Standing, charge_in
from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    AttemptStarted,
    ContextCompacted,
    Fact,
    GuardTripped,
    InboxAdmitted,
    ModelReplied,
    Note,
    Recorded,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Unknown,
    WorkspaceSaved,
)
from turnwright.schema.ids import CallId
from turnwright.schema.limits import Limits
from turnwright.schema.live import LiveEvent
from turnwright.schema.messages import AssistantMessage, RuntimeMessage, ToolCall
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.tools import NO_ANSWER, PERMISSION_NOTES
from turnwright.schema.verdicts import Effect
from turnwright.session.replay.parts import recorded_end, recorded_parts
from turnwright.session.replay.tape import INTERRUPTIONS, Tape, trips

CONTENT_CAME = "part of the answer had already been given"
GAVE_UP_BY_ITSELF = (CONTENT_CAME, "the same request would fail again", "the attempt budget of", "tries on this route")
"""How the loop says that it makes no further attempt though there is somewhere to go."""
UNTOLD = RuntimeMessage(code="guard", text="")


class Bytes(Protocol):
    """The recorded bytes of an attempt through the codecs again: its parts in batches, without Closed where we had hung
    up. None where there are none."""

    async def __call__(self, ended: AttemptEnded, at_ms: int, own_ids: Callable[[bytes], None]) -> Batches | None: ...


Batches: TypeAlias = Sequence[Sequence[Part]]


class Rerun(Protocol):
    """Does calls for real, in a place where they can do no harm."""

    def knows(self, name: str) -> bool:
        """Whether a tool can be executed there; the others answer as they did."""
        ...

    async def __call__(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome: ...


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a whole conversation before any of it is played."""

    letters: Mapping[str, str]
    """What was admitted to the inbox, by id."""
    effects: Mapping[str, Effect]
    """Of every tool that ever ran, by name."""
    names: tuple[str, ...]
    """Of every tool that was ever called."""
    concurrent: frozenset[str]
    """Tools with effects that ran beside others."""


def recording_of(facts: Sequence[Recorded]) -> Recording:
    letters: dict[str, str] = {}
    effects: dict[str, Effect] = {}
    names: dict[str, None] = {}
    running: dict[CallId, str] = {}
    beside: set[str] = set()
    for each in facts:
        match each.fact:
            case InboxAdmitted(inbox_id=inbox_id, text=text):
                letters[inbox_id] = text
            case ModelReplied(message=message):
                names.update(dict.fromkeys(call.name for call in message.calls))
            case ToolStarted(call_id=str(call_id), name=name, effect=effect):
                effects[name] = effect
                names[name] = None
                running[call_id] = name
                if len(running) > 1:
                    beside.update(running.values())
            case ToolEnded(call_id=str(call_id)):
                running.pop(call_id, None)
            case TurnEnded() | StepStarted():
                running.clear()
            case _:
                pass
    concurrent = frozenset(name for name in beside if effects[name] != "reads")
    return Recording(letters=letters, effects=effects, names=tuple(names), concurrent=concurrent)


class RecordedModel:
    """`kernel.ports.Model`: goes where it went, and says what was said."""

    def __init__(self, tape: Tape, ids: RecordedIds, bytes_of: Bytes | None) -> None:
        self._tape = tape
        self._ids = ids
        self._bytes_of = bytes_of
        self.from_bytes = self.from_parts = 0
        self.speaking = False

    def route(self, tried: Sequence[Tried], *, tools: bool = True) -> Route | NoRoute:
        del tools
        tape = self._tape
        following = tape.retried(len(tried)) if tried else tape.next_attempt()
        if following is not None:
            return Route(
                name=following.route,
                model=following.route,
                stream=following.stream,
                window=following.window,
                max_output=following.max_output,
                price=following.price,
                reasoning=following.reasoning is not None,  # whoever was not asked is one who cannot
            )
        said = tape.gave_up()
        why = self._why(said) if tried and said is not None else said
        here = Route(name=tried[-1].route if tried else "", model="")
        if why is None or (tried and any(known in why for known in GAVE_UP_BY_ITSELF)):
            return here
        return NoRoute(message=why)

    def _why(self, said: str) -> str:
        """It begins with what became of the last attempt."""
        ended = self._tape.first(AttemptEnded)
        fault = ended[1].fault if ended else None
        _, _, why = said.partition(f"{fault.message}; ") if fault else said.rpartition("; ")
        return why or said

    def judged(self, tried: Tried) -> Sequence[str]:
        del tried
        return self._tape.alerts()

    def prefer(self, route: str) -> None:
        """The recording says where each attempt went."""

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        del route, prompt
        tape = self._tape
        found = tape.first(AttemptEnded)
        if found is None:
            await tape.interrupted()
        assert found is not None, "an interruption does not come back"
        place, ended = found
        self.speaking = True
        try:
            batches = list(await self._batches(place, ended))
            last = None if ended.verdict == "cancelled" and not _repeated(ended) else batches.pop()
            for parts in batches:
                yield parts
            await tape.come_to(place)
            if last is None:
                await tape.interrupted()
            else:
                tape.clock.be_at(tape.facts[place].at)
                yield last
        finally:
            self.speaking = False

    async def _batches(self, place: int, ended: AttemptEnded) -> Batches:
        tape = self._tape
        if self._bytes_of is not None:
            batches = await self._bytes_of(ended, tape.facts[place].at, lambda data: self._own_ids(place, data))
            if batches is not None:
                self.from_bytes += 1
                return batches
        self.from_parts += 1
        early = [fact for at, fact in tape.coming() if at < place and isinstance(fact, ToolStarted)]
        had_content = tape.retried(ended.attempt) is None and CONTENT_CAME in (tape.gave_up() or "")
        parts = recorded_parts(ended, self._reply(place), early, had_content)
        hung_up = ended.verdict == "cancelled" and not _repeated(ended)
        return [parts] if hung_up else [parts, [recorded_end(ended)]]

    def _reply(self, place: int) -> ModelReplied | None:
        ended = self._tape.facts[place].fact
        assert isinstance(ended, AttemptEnded), "a reply is that of an attempt"
        for each in self._tape.facts[place + 1 :]:
            match each.fact:
                case ModelReplied():
                    return each.fact
                case ContextCompacted(digest=digest) as compacted if digest and ended.purpose == "compaction":
                    message = AssistantMessage(text=digest)
                    return ModelReplied(turn_id=compacted.turn_id, message=message, verdict=ended.verdict)
                case AttemptStarted() | StepStarted() | TurnEnded():
                    return None
                case _:
                    pass
        return None

    def _own_ids(self, place: int, data: bytes) -> None:
        """Ids that the wire did not give are ours, and were drawn in the order of the calls."""
        replied = self._reply(place)
        calls = replied.message.calls if replied else ()
        self._ids.calls = [call.id for call in calls if call.id.encode() not in data]


@dataclasses.dataclass
class _Waiting:
    place: int
    due: asyncio.Future[None]


class RecordedTools:
    """`kernel.ports.Tools`: calls end as they ended, in the order in which they did."""

    def __init__(self, tape: Tape, recording: Recording, model: RecordedModel, rerun: Rerun | None) -> None:
        self._tape = tape
        self._model = model
        self._rerun = rerun
        self.reran = 0
        self.working = 0
        """Calls that are being executed again."""
        self._waiting: dict[CallId, _Waiting] = {}
        self._checked: dict[tuple[str, str], int] = {}
        specs = tuple(
            ToolSpec(
                name=name,
                description="",
                parameters={"type": "object"},
                effect=recording.effects.get(name, "reads"),
                concurrent=name in recording.concurrent,
            )
            for name in recording.names
        )
        self._offered = specs or (_ANY,)
        tape.on_commit(self._release)

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        del mode
        self._checked.clear()
        found = self._tape.first(StepStarted)
        if found is None or found[1].tools_offered or self._wrapping_up(found[0]):
            return self._offered
        return ()

    def _wrapping_up(self, place: int) -> bool:
        """The step at that place goes without tools, whatever is offered."""
        return self.wrapping_up or any(
            (isinstance(fact, Note) and fact.code == "wrap-up")
            or (isinstance(fact, GuardTripped) and fact.verdict == "force_answer")
            for fact in (each.fact for each in self._tape.facts[:place])
        )

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        """What became of this call then: it was refused, needed a yes, or simply ran."""
        call_id = self._which(name, arguments)
        parsed: dict[str, Any] = msgspec.json.decode(arguments or "{}")
        asked: ApprovalAsked | None = None
        answered: ApprovalAnswered | None = None
        note: Note | None = None
        remedy = ""
        for _, fact in self._tape.coming():
            if fact.call_id != call_id or isinstance(fact, StepStarted):
                continue
            match fact:
                case ApprovalAsked(tool=tool) if tool and asked is None:
                    asked = fact
                case ApprovalAnswered() if asked is not None and fact.approval_id == asked.approval_id:
                    answered = fact
                case ToolStarted() if asked is not None and answered is not None:
                    return _asks(parsed, asked, (answered.answer,))
                case Note(code=code) if code in PERMISSION_NOTES:
                    note = msgspec.structs.replace(fact, turn_id=None, step_id=None, call_id=None)
                case ToolStarted():
                    return Ready(parsed, note)
                case ToolEnded(outcome="refused", output=output) if asked is None:
                    return Unfit(output, note)
                case ToolEnded(output=output):
                    remedy = output.partition(NO_ANSWER)[2].removeprefix(". ")
                    break
                case _:
                    pass
        return _asks(parsed, asked, (), remedy) if asked is not None else Ready(parsed)

    def _which(self, name: str, arguments: str) -> CallId | None:
        """Calls that look the same are checked in their order."""
        alike = [call.id for call in self._calls() if (call.name, call.arguments) == (name, arguments)]
        if not alike:
            return None
        number = self._checked.get((name, arguments), 0)
        self._checked[name, arguments] = number + 1
        return alike[number % len(alike)]

    def _calls(self) -> Sequence[ToolCall]:
        """Of the reply that is being acted upon: still to be recorded, or the last that was."""
        places = range(self._tape.at, len(self._tape.facts))
        for place in (*places, *range(self._tape.at - 1, -1, -1)):
            fact = self._tape.facts[place].fact
            if isinstance(fact, StepStarted | TurnEnded) and place >= self._tape.at:
                continue
            if isinstance(fact, ModelReplied):
                return fact.message.calls
        return self.left_over

    left_over: Sequence[ToolCall] = ()
    """Calls of a reply that an earlier process recorded."""
    wrapping_up = False
    """A summary was asked for in an earlier process."""

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        tape = self._tape
        sends = tape.sent_by(context.call_id) is not None
        if sends:
            await context.delegate(Delegation(brief=""))
        found = tape.end_of(context.call_id)
        if found is None:
            await tape.interrupted()
        assert found is not None, "an interruption does not come back"
        place, ended = found
        if not sends and not self._reruns(name):
            await ask_again(tape, place, context)
        done = await self._done(ended, name, arguments, context)
        self._waiting[context.call_id] = _Waiting(place, asyncio.get_running_loop().create_future())
        tape.moves += 1
        try:
            self._release()
            await self._waiting[context.call_id].due
            if ended.outcome == "interrupted":
                await tape.interrupted()
        except asyncio.CancelledError:
            if ended.outcome == "interrupted":
                raise
        finally:
            self._waiting.pop(context.call_id, None)
        return done

    def _reruns(self, name: str) -> bool:
        return self._rerun is not None and self._rerun.knows(name)

    async def _done(self, ended: ToolEnded, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        match ended.outcome:
            case "interrupted" | "unknown" | "refused":
                show_until_interrupted(ended, context)
                return ToolOutcome(output="")
            case "ok" | "failed" | "timeout":
                if self._rerun is not None and self._reruns(name):
                    self.reran += 1
                    self.working += 1
                    try:
                        return await self._rerun(name, arguments, context)
                    finally:
                        self.working -= 1
                return ToolOutcome(
                    output=ended.output,
                    outcome=ended.outcome,
                    images=ended.images,
                    original_bytes=ended.original_bytes,
                    detail=ended.detail,
                )

    def _release(self) -> None:
        """Let end what ended next then. Results that stand together were found together, or in the order of their
        starts: they are let go together, once each call of theirs waits here."""
        together: list[tuple[_Waiting, ToolEnded]] = []
        started = self._started()
        for _, fact in self._tape.coming():
            match fact:
                case ToolEnded(call_id=str(call_id)) if call_id in started:
                    if together and started[call_id] < started[together[-1][1].call_id or ""]:
                        break
                    if (waiting := self._waiting.get(call_id)) is None:
                        return
                    together.append((waiting, fact))
                    if fact.outcome == "interrupted":
                        break
                case ToolEnded() if "shared_with" in fact.detail or fact.outcome == "refused":
                    continue
                case AttemptEnded() | ModelReplied() | GuardTripped() if not self._model.speaking and not together:
                    continue  # noted, and waiting to be recorded with what follows
                case _:
                    break
        for waiting, _ in together:
            if not waiting.due.done():
                waiting.due.set_result(None)
                self._tape.clock.be_at(self._tape.facts[waiting.place].at)

    def _started(self) -> dict[CallId, int]:
        """Calls that run, by the order of their starts."""
        running: dict[CallId, int] = {}
        for place in range(self._tape.at - 1, -1, -1):
            match self._tape.facts[place].fact:
                case ToolStarted(call_id=str(call_id)):
                    running[call_id] = place
                case StepStarted():
                    break
                case _:
                    pass
        return running


_ANY = ToolSpec(name="(none)", description="", parameters={"type": "object"})
"""Stands for tools that were offered and never called."""


def _asks(arguments: dict[str, Any], asked: ApprovalAsked, grants: tuple[str, ...], remedy: str = "") -> Asks:
    return Asks(
        arguments=arguments,
        question=asked.question,
        choices=asked.choices,
        grants=grants,
        segment=asked.segment,
        rule=asked.rule,
        remedy=remedy,
    )


class RecordedSubagents:
    """`kernel.ports.Subagents`: each goes and comes back when it did. What it did stands in a journal of its own, and
    is not done again with this one."""

    def __init__(self, tape: Tape, ledger: RecordedLedger) -> None:
        self._tape = tape
        self._ledger = ledger
        self.back: set[int] = set()
        """The places of the ends that were given."""

    @asynccontextmanager
    async def place(self, wanted: Delegation, context: ToolContext) -> AsyncIterator[RecordedSubagent]:
        del wanted
        found = self._tape.sent_by(context.call_id)
        assert found is not None, "only a call that sent one sends it again"
        place, started = found
        await self._tape.come_to(place)
        yield RecordedSubagent(self, self._tape, context, started)

    async def end(self, place: int, ended: SubagentEnded) -> None:
        """In the order in which they are on record, also where they were stopped together."""
        before = [at for at, fact in list(self._tape.coming()) if at < place and isinstance(fact, SubagentEnded)]
        await self._tape.until(lambda: all(at in self.back or at < self._tape.at for at in before))
        self.back.add(place)
        self._ledger.add(charge_in(ended))


class RecordedSubagent:
    """`kernel.ports.Subagent`."""

    def __init__(
        self, subagents: RecordedSubagents, tape: Tape, context: ToolContext, started: SubagentStarted
    ) -> None:
        self.started = started
        self.ended: SubagentEnded | None = None
        self._subagents = subagents
        self._tape = tape
        self._context = context

    async def run(self) -> SubagentEnded:
        tape, call_id = self._tape, self._context.call_id
        found = tape.subagent_of(call_id)
        await ask_again(tape, len(tape.facts) if found is None else found[0], self._context)
        stopped = tape.has_end and tape.is_interrupted(call_id)
        try:
            await tape.come_to(tape.interruption() if stopped or found is None else found[0])
            if stopped or found is None:
                if (end := tape.end_of(call_id)) is not None:
                    show_until_interrupted(end[1], self._context)
                await tape.interrupted()
        except asyncio.CancelledError:
            if found is not None:
                await self._subagents.end(*found)
                self.ended = found[1]
            raise
        assert found is not None, "an interruption does not come back"
        await self._subagents.end(*found)
        self.ended = found[1]
        return found[1]


def show_until_interrupted(ended: ToolEnded, context: ToolContext) -> None:
    """What had been seen of a call stands in its result."""
    said = interrupted_text(context.step_id)
    context.output(ended.output.removesuffix(f"[{said}]").removesuffix("\n") if ended.output != said else "")


async def ask_again(tape: Tape, until: int, context: ToolContext) -> None:
    """What a tool itself asked, or its subagent, while it ran."""
    for at, fact in list(tape.coming()):
        if at < until and isinstance(fact, ApprovalAsked) and fact.call_id == context.call_id and not fact.tool:
            await tape.come_to(at)
            await context.ask(fact.question, fact.choices)


class RecordedGuards:
    """`kernel.ports.Guards`: what they said, after the facts at which they said it."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._said = iter(trips(each.fact for each in tape.facts if isinstance(each.fact, Fact)))

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        del fact
        return [_judgement(tripped, self._cut(tripped)) for tripped in next(self._said, [])]

    def _cut(self, by: GuardTripped) -> tuple[CallId, ...]:
        """Which calls a guard cut off, their own results say."""
        if by.verdict != "truncate":
            return ()
        return tuple(
            fact.call_id or ""
            for fact in (each.fact for each in self._tape.facts)
            if isinstance(fact, ToolEnded)
            and (fact.step_id, fact.outcome, fact.detail.get("guard")) == (by.step_id, "refused", by.guard)
        )

    def watch(self) -> Watch:
        return _RecordedWatch(self._tape)

    def recall(self, fact: Fact | Unknown) -> None:
        """What they said is on the tape."""


class _RecordedWatch:
    """Ends an attempt where it was ended then: behind the last of it that is on record."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def see(self, event: LiveEvent) -> None:
        del event

    def end(self) -> Repeated | None:
        found = self._tape.first(AttemptEnded)
        if found is None or not _repeated(found[1]):
            return None
        fault = found[1].fault
        return Repeated(segment=fault.excerpt, why=fault.message) if fault else None


def _repeated(ended: AttemptEnded) -> bool:
    """A guard hung up on it, and not whoever ended the turn."""
    return ended.fault is not None and ended.fault.code == REPETITION


def _judgement(tripped: GuardTripped, cut: tuple[CallId, ...]) -> Judgement:
    guard, why, evidence, said = tripped.guard, tripped.why, tripped.evidence, tripped.said
    match tripped.verdict:
        case "warn":
            return Warn(guard=guard, why=why, evidence=evidence, said=said)
        case "block":
            return Block(guard=guard, why=why, evidence=evidence, call_id=tripped.call_id or "")
        case "truncate":
            return Truncate(guard=guard, why=why, evidence=evidence, call_ids=cut)
        case "ask":
            return Nudge(guard=guard, why=why, evidence=evidence, said=said or UNTOLD)
        case "force_answer":
            return ForceAnswer(guard=guard, why=why, evidence=evidence, said=said or UNTOLD)
        case "stop":
            reason = tripped.reason or "guard-stop"
            return Halt(guard=guard, why=why, evidence=evidence, reason=reason, text=tripped.text)
        case _:
            assert_never(tripped.verdict)


class RecordedContext:
    """`kernel.ports.Context`: the history as it is now, with the segments that stood before it then."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def prompt(self, history: Conversation, tools: tuple[ToolSpec, ...], mode: str) -> Prompt:
        del mode
        tape = self._tape
        if tape.first(StepStarted) is None and tape.end is not None and tape.end.reason in INTERRUPTIONS:
            await tape.interrupted()
        return Prompt(lineage=history.lineage, system=(), messages=history.messages, tools=tools)

    def apart(self, tools: tuple[ToolSpec, ...], mode: str) -> str:
        """What was said then, if it was, before the step that is about to begin."""
        del tools
        for _, fact in self._tape.coming():
            match fact:
                case Note(code="mode-told", said=RuntimeMessage() as said):
                    return text_of(said, mode)
                case StepStarted() | TurnEnded():
                    break
                case _:
                    pass
        return ""

    def segments(self, prompt: Prompt) -> dict[str, str]:
        del prompt
        found = self._tape.first(StepStarted)
        return dict(found[1].segments) if found else {}

    def prefix_chars(self, prompt: Prompt) -> int:
        del prompt
        found = self._tape.first(StepStarted)
        return found[1].prefix_chars if found else 0


class RecordedInbox:
    """`kernel.ports.Inbox`: letters arrive at the boundaries at which they were delivered."""

    def __init__(self, tape: Tape, letters: Mapping[str, str]) -> None:
        self._tape = tape
        self._letters = letters

    def take(self) -> Sequence[Letter]:
        delivered = self._tape.steering()
        if delivered is None:
            return ()
        ids = delivered.inbox_ids
        if len(ids) == 1:
            return [Letter(inbox_id=ids[0], text=self._letters.get(ids[0], delivered.text))]
        return [Letter(inbox_id=inbox_id, text=self._letters.get(inbox_id, "")) for inbox_id in ids]


class RecordedIds:
    """`kernel.ports.Ids`."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.calls: list[CallId] = []
        """Ids of ours for the calls of the attempt that is being played."""

    def new(self, kind: Literal["turn", "call", "approval", "inbox", "conversation"]) -> str:
        if kind == "approval" and (found := self._tape.first(ApprovalAsked)) is not None:
            return found[1].approval_id
        if kind == "call" and self.calls:
            return self.calls.pop(0)
        return f"unrecorded-{kind}"


class RecordedLedger:
    """`kernel.ports.Ledger`: what was covered is covered; what is spent adds up again. Of budgets above the
    conversation's own nothing is recorded in it."""

    def __init__(self, tape: Tape, limits: Limits, spent: Charge) -> None:
        self._tape = tape
        self._limits = limits
        self._spent = spent

    async def reserve(self, route: Route, input_tokens: int, output_tokens: int) -> Covered | Refused:
        del route, input_tokens, output_tokens
        found = self._tape.next_attempt()
        end = self._tape.end
        if found is None and end is not None:
            match end.reason:
                case "token-budget" | "cost-budget":
                    return Refused(end.reason, end.detail)
                case _:
                    pass
        return Covered(self, found.reserved_tokens if found else 0, found.reserved_usd if found else None)

    def standings(self) -> Sequence[Standing]:
        return (Standing(self._spent, self._limits),)

    def add(self, charge: Charge) -> None:
        self._spent += charge


class Covered:
    """`kernel.ports.Reservation`."""

    def __init__(self, ledger: RecordedLedger, tokens: int, cost_usd: float | None) -> None:
        self.tokens = tokens
        self.cost_usd = cost_usd
        self._ledger: RecordedLedger | None = ledger

    def settle(self, charge: Charge) -> None:
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.add(charge)


class RecordedAnswers:
    """`kernel.ports.Ask`: what the user said then."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def __call__(self, question: Question) -> str | None:
        for place, fact in self._tape.coming():
            if isinstance(fact, ApprovalAnswered) and fact.approval_id == question.approval_id:
                await self._tape.come_to(place)
                return None if fact.by == "nobody" else fact.answer
        await self._tape.interrupted()
        raise AssertionError("an interruption does not come back")


class RecordedVersions:
    """What became of each save, in the order in which they were begun."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._begun = False

    def begin(self) -> None:
        self._begun = True

    async def settled(self) -> Saved | Unsaved | None:
        begun, self._begun = self._begun, False
        if begun:
            for _, fact in self._tape.coming():
                match fact:
                    case WorkspaceSaved(tree=tree, files=files):
                        return Saved(tree, files)
                    case Note(code="workspace-not-saved", text=why):
                        return Unsaved(why)
                    case _:
                        pass
        return None


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of the loop begins with."""

    left_over: Sequence[ToolCall]
    """Calls of a reply that another process recorded."""
    wrapping_up: bool
    limits: Limits
    spent: Charge


class Played(msgspec.Struct, frozen=True, kw_only=True):
    ports: Ports
    model: RecordedModel
    tools: RecordedTools


def recorded_ports(
    tape: Tape,
    recording: Recording,
    before: Before,
    bytes_of: Bytes | None,
    rerun: Rerun | None,
) -> Played:
    ids = RecordedIds(tape)
    model = RecordedModel(tape, ids, bytes_of)
    tools = RecordedTools(tape, recording, model, rerun)
    tools.left_over, tools.wrapping_up = before.left_over, before.wrapping_up

    async def asleep() -> None:
        end = tape.next_is(TurnEnded)
        if (end is not None and end.reason in INTERRUPTIONS) or (end is None and tape.at == len(tape.facts)):
            await tape.interrupted()

    tape.clock.before_sleep = asleep
    ledger = RecordedLedger(tape, before.limits, before.spent)
    ports = Ports(
        model=model,
        tools=tools,
        guards=RecordedGuards(tape),
        context=RecordedContext(tape),
        inbox=RecordedInbox(tape, recording.letters),
        clock=tape.clock,
        ids=ids,
        cancel=tape.cancel,
        ledger=ledger,
        subagents=RecordedSubagents(tape, ledger),
        ask=RecordedAnswers(tape),
        emit=_unheard,
        jitter=lambda: 0.0,
        versions=RecordedVersions(tape),
    )
    return Played(ports=ports, model=model, tools=tools)


def _unheard(event: LiveEvent) -> None:
    """Nobody watches a replay."""
