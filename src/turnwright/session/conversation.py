"""The life of one conversation in one process: opened or loaded under a lease, turns run, the user heard meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.kernel.loop import Turn, TurnOutcome, compact, run_turn
from turnwright.kernel.ports import Ask, Clock, Context, Guards, Ids, LookInto, Model, Ports, Tools, Versions
from turnwright.kernel.spending import Spending
from turnwright.kernel.task_class import Found, task_class_of
from turnwright.kernel.tiers import CHOSEN, OFF
from turnwright.schema.errors import InputError
from turnwright.schema.facts import (
    AttemptStarted,
    ContextCompacted,
    ConversationOpened,
    Fact,
    KnownFact,
    ModeChanged,
    Note,
    RouteSwitched,
    StepStarted,
    SubagentEnded,
    TaskSoFar,
    TurnEnded,
    TurnSoFar,
    TurnStarted,
    Unknown,
)
from turnwright.schema.hosting import LetterState
from turnwright.schema.ids import ConversationId, Seq, TurnId
from turnwright.schema.limits import Compaction, Dispatch, Limits, Retry
from turnwright.schema.masking import Masker
from turnwright.schema.messages import Image, RuntimeMessage
from turnwright.schema.modes import Course
from turnwright.schema.routes import NoRoute
from turnwright.schema.sandbox import Confinement
from turnwright.schema.tiers import Tier, Tiers
from turnwright.schema.tools import Detail
from turnwright.schema.verdicts import StopReason, TaskClass
from turnwright.session.broadcast import Broadcast, Event, Subscription
from turnwright.session.budget import Account, check_price_known, with_subagents
from turnwright.session.cancel import Cancellation
from turnwright.session.inbox import Inbox, LetterKind, heard
from turnwright.session.ports import Captures, Journal, Lease, NoCaptures, WallClock
from turnwright.session.recorder import Recorder, with_payload
from turnwright.session.subagents import Sending, Subagents, left_open, patience_s

OPENS_NEXT: frozenset[StopReason] = frozenset({"stop", "length", "refused", "guard-stop", "needs-user", "max-steps"})
"""After a turn that ended so, what waits in the inbox opens the next one by itself (K11). Otherwise it goes on waiting:
the user stopped it, time or money ran out, or nobody answers at the provider's."""

PROCESS_DIED = "the process that ran the turn died"
FORKED = "the conversation was forked here"
BURIED = frozenset({PROCESS_DIED, FORKED})
"""How a turn ends that the loop did not end."""


Caps: TypeAlias = tuple[int | None, float | None]
"""Tokens and USD."""


class SessionClock(Clock, WallClock, Protocol):
    """Time in both senses: what passes, and what the calendar says."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a conversation is handed: the world it works in and the rules it works by."""

    journal: Journal[Any]
    model: Model
    tools: Tools
    context: Context
    guards: Callable[[], Guards]
    """Made anew for each conversation: they remember."""
    clock: SessionClock
    ids: Ids
    masker: Masker
    ask: Ask
    jitter: JitterSource
    limits: Limits = Limits()
    retry: Retry = Retry()
    dispatch: Dispatch = Dispatch()
    compaction: Compaction = Compaction()
    mode: str = "build"
    course: Course = Course()
    """The modes that a turn goes through, beginning with `mode`."""
    stays_in_mode: bool = False
    """The mode was asked for, and holds also for what is carried on."""
    task_class: TaskClass | None = None
    """None: told from the request."""
    tiers: Tiers | None = None
    reasoning: bool | None = None
    purpose: str = "turn"
    notices: tuple[Note, ...] = ()
    """What was found out while the session was put together, for the record of whatever runs in it."""
    confinement: Confinement | None = None
    """What confines the commands of its tools."""
    beside: Beside | None = None
    captures: Captures = NoCaptures()
    within: Account | None = None
    """The budget of whoever sent this conversation as a subagent."""
    look_into: LookInto | None = None
    """What guards may know of the workspace; None where there is none."""
    versions: Versions | None = None
    sending: Sending | None = None
    """None where no subagent may be sent."""
    depth: int = 0
    """How many conversations are above it that wait for it."""


class Beside(Protocol):
    """What goes on beside the turns of a conversation: servers that lend it their tools."""

    def news(self) -> Sequence[Note]:
        """What has happened since it was last asked, for the record."""
        ...

    def recall(self, fact: Fact | Unknown) -> None:
        """A fact of the conversation that is loaded."""
        ...


class JitterSource(Protocol):
    def __call__(self) -> float: ...


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn goes about its request."""

    mode: str
    course: Course
    task_class: TaskClass = "other"
    task_signals: tuple[str, ...] = ()
    tiers: Tiers | None = None
    tier: Tier | None = None
    """To which the last turn had come."""
    reasoning: bool | None = None


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that started and has no end: the process that ran it died."""

    turn_id: TurnId
    tally: Tally


class Conversation:
    """One writer: holds the lease from opening to `close`."""

    def __init__(self, session: Session, lease: Lease, history: History) -> None:
        self.id: ConversationId = lease.conversation_id
        self.history = history
        self.unfinished: Unfinished | None = None
        self.last_reason: StopReason | None = None
        self._last = Manner(mode=session.mode, course=session.course)
        self._route = ""
        self._switched_to = ""
        self._buried_as = PROCESS_DIED
        self._account = Account(session.limits, within=session.within)
        self._caps: Caps = (None, None)
        self._notices = session.notices
        self._session = session
        self._guards = session.guards()
        self._lease = lease
        self._inbox = Inbox()
        self._broadcast = Broadcast(session.masker)
        self._cancel = Cancellation()
        self._subagents: Subagents | None = None
        if session.sending is not None:
            self._subagents = Subagents(
                session.sending, self.id, session.tools, session.mode, session.ids, lambda: self._account
            )
        self._left_open: Sequence[SubagentEnded] = ()
        """Subagents that a crash cut off, and whose ends are not on record yet."""
        self._record = Recorder(
            session.journal, lease, session.clock, session.masker, self._broadcast, session.captures
        )

    @classmethod
    async def create(cls, session: Session, conversation_id: ConversationId | None = None) -> Conversation:
        """A new one, with nothing in it yet: subscribe, then say something. Everything that can be refused is refused
        before there is anything to clean up."""
        check_route(session)
        conversation_id = conversation_id or session.ids.new("conversation")
        lease = await session.journal.acquire(conversation_id, create=True)
        return cls(session, lease, History(conversation_id))

    @classmethod
    async def load(cls, session: Session, conversation_id: ConversationId) -> Conversation:
        """An existing one, folded from its journal. Nothing is written by looking."""
        lease = await session.journal.acquire(conversation_id)
        conversation = cls(session, lease, History(conversation_id))
        spending = Spending()
        for recorded in await session.journal.opening(conversation_id):
            conversation._fold(await with_payload(recorded.fact, session.journal))
            conversation.history.placed(recorded.fact, recorded.seq)
            spending.apply(recorded.fact)
        conversation.history.taken_up = True
        conversation._left_open = await left_open(session.journal, spending)
        spent = await with_subagents(session.journal, spending)
        conversation._account = Account(session.limits, spent=spent, within=session.within)
        return conversation

    def begin_with(self, opened: ConversationOpened) -> None:
        """The first fact. It becomes durable together with the first turn's start, so that wherever we die, whoever
        was shown the id can resume the task."""
        self._record.with_next(opened)

    def notice(self, note: Note) -> None:
        """For the record of the next turn."""
        self._notices = (*self._notices, note)

    @property
    def waiting(self) -> bool:
        """The user has said something that no turn has taken yet."""
        return self._inbox.waiting

    def subscribe(self) -> Subscription:
        return self._broadcast.subscribe()

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Tell `listener` at once of whatever happens; the result ends it. It must not wait."""
        return self._broadcast.listen(listener)

    async def say(self, text: str, images: Sequence[Image] = ()) -> TurnOutcome:
        """One turn. Letters that were left over come first. A turn that a crash cut off is closed before it."""
        check_route(self._session)
        task = heard(text, self._session.masker)
        if not task.strip() and not self._inbox.waiting:
            raise InputError("There is nothing to do: the task is empty.", remedy="Give a task in words.")
        await self._bury_unfinished()
        return await self._run_and_go_on(self._next_turn(task, tuple(images)))

    async def carry_on(self) -> TurnOutcome:
        """Finish the turn that a crash cut off from its last durable step; or, where the last one ended early, take
        up its work in a new turn. After one that ended well there is nothing to carry on but what the user has said
        since."""
        check_route(self._session)
        await self._end_subagents()
        await self._change_caps()
        if self.unfinished is not None:
            left = self.unfinished
            self.unfinished = None
            if self._session.confinement is not None:  # where it began, another may have been recorded
                self.notice(Note(code="sandbox", text=str(self._session.confinement)))
            return await self._run_and_go_on(self._turn(turn_id=left.turn_id, manner=self._last, begun=left.tally))
        if not self.history.messages:
            raise InputError(f"Conversation {self.id} has no turn to carry on.", remedy="Give it a task.")
        if self.last_reason == "stop":
            if self._inbox.waiting:
                return await self.say("")
            raise InputError(
                f"There is nothing to carry on in conversation {self.id}: its last turn has ended.",
                remedy=f"Say what is next: turnwright run --resume {self.id} TASK",
            )
        said = RuntimeMessage(
            code="carry-on",
            text=f"The previous turn ended early ({self.last_reason}). The user asks you to carry on with the task.",
        )
        note = Note(code="carry-on", text=f"carried on after {self.last_reason}", said=said)
        await self._write(note)
        manner = self._own_manner("")
        if not self._session.stays_in_mode:
            last = self._last
            manner = msgspec.structs.replace(
                manner,
                mode=last.mode,
                course=last.course,
                task_class=last.task_class,
                task_signals=last.task_signals,
                tier=last.tier,
            )
        return await self._run_and_go_on(self._turn(manner=manner, continued=True))

    async def compact(self) -> ContextCompacted:
        """Condense what lies behind, between two turns."""
        check_route(self._session)
        if self.unfinished is not None:
            raise InputError(
                f"A turn of conversation {self.id} was interrupted.",
                remedy=f"Carry it on first: turnwright resume {self.id} --continue",
            )
        turn = self._turn()
        made = await compact(turn, self._ports(), self._record_of_turn)
        if isinstance(made, str):
            raise InputError(f"Nothing of conversation {self.id} was condensed: {made}.")
        return made

    async def steer(self, text: str, inbox_id: str = "") -> str:
        """Say something to the running turn; delivered after its current tools. Returns the letter's id. One that is
        given by whoever speaks can be said again under it, and is heard once."""
        return await self._admit(text, inbox_id, "steer")

    async def queue(self, text: str, inbox_id: str = "") -> str:
        """Say something that opens the next turn."""
        return await self._admit(text, inbox_id, "queue")

    async def _admit(self, text: str, inbox_id: str, kind: LetterKind) -> str:
        inbox_id = inbox_id or self._session.ids.new("inbox")
        await self._inbox.admit(self._record, inbox_id, heard(text, self._session.masker), kind)
        return inbox_id

    async def withdraw(self, inbox_id: str) -> LetterState:
        """Take a letter back, if it was not delivered yet. Idempotent."""
        return await self._inbox.withdraw(self._record, inbox_id)

    def stop(self) -> None:
        """Ask the running turn, or the one about to begin, to stop; it returns within a second."""
        self._cancel.request()

    async def note(self, note: Note) -> None:
        await self._write(note)

    async def close(self) -> None:
        self._broadcast.end()
        await self._lease.release()

    def _turn(
        self,
        *,
        text: str = "",
        turn_id: TurnId | None = None,
        manner: Manner | None = None,
        images: tuple[Image, ...] = (),
        inbox_ids: tuple[str, ...] = (),
        continued: bool = False,
        begun: Tally | None = None,
    ) -> Turn:
        session, manner = self._session, manner or self._own_manner(text)
        return Turn(
            conversation_id=self.id,
            turn_id=turn_id or session.ids.new("turn"),
            text=text,
            history=self.history,
            images=images,
            mode=manner.mode,
            course=manner.course,
            task_class=manner.task_class,
            task_signals=manner.task_signals,
            tiers=manner.tiers,
            tier=manner.tier if continued else None,
            reasoning=manner.reasoning,
            limits=session.limits,
            retry=session.retry,
            dispatch=session.dispatch,
            compaction=session.compaction,
            inbox_ids=inbox_ids,
            continued=continued,
            begun=begun,
            purpose=session.purpose,
            route=self._route,
            confinement=session.confinement,
        )

    def _own_manner(self, text: str) -> Manner:
        """As this session has it, for this request."""
        session = self._session
        found = task_class_of(text)
        if session.task_class is not None:
            found = Found(session.task_class, ("configured",))
        tiers = session.tiers
        if tiers is not None and tiers.forced is not None:
            tiers = msgspec.structs.replace(tiers, forced_turns=self._turns_forced_to(tiers.forced))
        return Manner(
            mode=session.mode,
            course=session.course,
            task_class=found.task_class,
            task_signals=found.signals,
            tiers=tiers,
            reasoning=session.reasoning,
        )

    def _turns_forced_to(self, tier: Tier) -> int:
        """In a row, up to now."""
        last = self._last.tiers
        return last.forced_turns + 1 if last is not None and last.forced == tier else 0

    def _next_turn(self, task: str, images: tuple[Image, ...] = ()) -> Turn:
        """Opened by everything that waits, and by what is said now."""
        letters = self._inbox.take_all()
        return self._turn(
            text="\n\n".join([*(letter.text for letter in letters), *([task] if task else [])]),
            images=images,
            inbox_ids=tuple(letter.inbox_id for letter in letters),
        )

    async def _run_and_go_on(self, turn: Turn) -> TurnOutcome:
        """The outcome is that of the last turn."""
        outcome = await self._run(turn)
        while self._inbox.waiting and outcome.reason in OPENS_NEXT:
            outcome = await self._run(self._next_turn(""))
        return outcome

    async def _run(self, turn: Turn) -> TurnOutcome:
        if turn.begun is None and not turn.continued:
            self._account = Account(turn.limits, within=self._session.within)
        self._caps = caps_of(turn.limits)
        for notice in self._notices:
            self._record.with_next(notice)
        self._notices = ()
        try:
            outcome = await run_turn(turn, self._ports(), self._record_of_turn)
        finally:
            self._cancel = Cancellation()
        self.last_reason, self._route = outcome.reason, outcome.route
        self._last = msgspec.structs.replace(manner_of(turn), mode=outcome.mode, tier=outcome.tier)
        return outcome

    def _ports(self) -> Ports:
        return Ports(
            model=self._session.model,
            tools=self._session.tools,
            guards=self._guards,
            context=self._session.context,
            inbox=self._inbox,
            clock=self._session.clock,
            ids=self._session.ids,
            cancel=self._cancel,
            ledger=self._account,
            ask=self._session.ask,
            emit=self._broadcast.emit,
            jitter=self._session.jitter,
            look_into=self._session.look_into,
            versions=self._session.versions,
            subagents=self._subagents,
            abandon_after_s=patience_s(self._session.depth),
        )

    async def _bury_unfinished(self) -> None:
        """A dead turn gets its end before the next one starts; its open calls read `interrupted`."""
        await self._end_subagents()
        if self.unfinished is not None:
            tally = self.unfinished.tally
            await self._write(
                TurnEnded(
                    turn_id=self.unfinished.turn_id,
                    reason="cancelled",
                    detail=self._buried_as,
                    steps=tally.steps,
                    usage=tally.usage,
                    cost_usd=tally.cost_usd,
                    context_size=tally.context_size,
                    text=tally.text,
                )
            )
            self.unfinished = None

    async def _end_subagents(self) -> None:
        """Those that died with the process: as far as they came, before anything is made of it."""
        ends, self._left_open = self._left_open, ()
        for ended in ends:
            await self._write(ended)
            if self.unfinished is not None:
                self.unfinished.tally.apply(ended)

    async def _write(self, fact: Fact) -> None:
        """Outside a turn the conversation itself feeds the folds."""
        await self._record(fact)
        self.history.apply(fact)
        self._guards.recall(fact)

    async def _record_of_turn(self, *facts: Fact) -> Sequence[Seq]:
        for note in self._session.beside.news() if self._session.beside else ():
            self._record.with_next(note)
        return await self._record(*map(self._self_contained, facts))

    def _self_contained(self, fact: Fact) -> Fact:
        """What a compaction must carry on of what is read no longer, and the loop does not know."""
        match fact:
            case ContextCompacted():
                return msgspec.structs.replace(
                    fact,
                    waiting=self._inbox.letters(),
                    route=self._switched_to,
                    task=self._task_so_far(),
                    subagents_sent=0 if self._subagents is None else self._subagents.sent,
                )
            case StepStarted(mode=mode) if self._subagents is not None:
                self._subagents.mode = mode
                return fact
            case RouteSwitched(after=after):
                self._switched_to = after
                return fact
            case _:
                return fact

    def _task_so_far(self) -> TaskSoFar:
        spent, (tokens, cost_usd) = self._account.spent, self._caps
        return TaskSoFar(
            spent_tokens=spent.tokens,
            spent_usd=spent.cost_usd,
            unmetered=spent.unmetered,
            unpriced=spent.unpriced,
            max_tokens=tokens,
            max_cost_usd=cost_usd,
        )

    async def _change_caps(self) -> None:
        """A task that is carried on under other caps than before says so."""
        now = caps_of(self._session.limits)
        if self._caps != now:
            tokens, cost_usd = now
            said = ", ".join(
                f"{name} {_cap(before)} → {_cap(after)}"
                for name, before, after in zip(("max_tokens", "max_cost_usd"), self._caps, now, strict=True)
                if before != after
            )
            data: Detail = {"max_tokens": tokens, "max_cost_usd": cost_usd}
            await self._write(Note(code="budget-changed", text=said, data=data))

    def _begin_fork(self, opened: ConversationOpened) -> None:
        """Where it came from went its own ways; the model may be another one now."""
        self._route = self._switched_to = ""
        self._buried_as = FORKED
        self._session.model.prefer(opened.model)

    def _fold(self, fact: KnownFact | Unknown) -> None:
        self.history.apply(fact)
        self._inbox.apply(fact)
        self._guards.recall(fact)
        if self._session.beside is not None:
            self._session.beside.recall(fact)
        match fact:
            case AttemptStarted(route=route):
                self._route = route
            case RouteSwitched(after=after) | ContextCompacted(route=str(after)) if after:
                self._switched_to = after
                self._session.model.prefer(after)
            case _:
                pass
        match fact:
            case ConversationOpened(forked_at=int()):
                self._begin_fork(fact)
            case TurnStarted(max_tokens=tokens, max_cost_usd=cost_usd):
                self._caps = tokens, cost_usd
            case ContextCompacted(task=TaskSoFar(max_tokens=tokens, max_cost_usd=cost_usd)):
                self._caps = tokens, cost_usd
            case Note(code="budget-changed", data={"max_tokens": tokens, "max_cost_usd": cost_usd}):
                self._caps = msgspec.convert((tokens, cost_usd), Caps)
            case _:
                pass
        if self._subagents is not None:
            self._subagents.recall(fact)
        match fact:
            case TurnStarted(turn_id=str(turn_id)):
                self._last = manner_of(fact)
                self.unfinished = Unfinished(turn_id=turn_id, tally=Tally(mode=fact.mode))
            case ContextCompacted(turn_id=str(turn_id), turn=TurnSoFar() as so_far):
                self._last = manner_of(so_far)
                self.unfinished = Unfinished(turn_id=turn_id, tally=Tally.of(so_far))
            case TurnEnded(reason=reason):
                self.unfinished = None
                self.last_reason = reason
            case _:
                if isinstance(fact, ModeChanged):
                    self._last = msgspec.structs.replace(self._last, mode=fact.after)
                if isinstance(fact, Note) and fact.code in (CHOSEN, OFF):
                    tier = msgspec.convert(fact.data.get("tier"), Tier | None)
                    self._last = msgspec.structs.replace(self._last, tier=tier)
                if self.unfinished is not None:
                    self.unfinished.tally.apply(fact)


def manner_of(turn: TurnStarted | TurnSoFar | Turn) -> Manner:
    signals = () if isinstance(turn, TurnSoFar) else turn.task_signals
    return Manner(
        mode=turn.mode,
        course=turn.course,
        task_class=turn.task_class,
        task_signals=signals,
        tiers=turn.tiers,
        tier=turn.tier,
        reasoning=turn.reasoning,
    )


def caps_of(limits: Limits) -> Caps:
    return limits.max_tokens, limits.max_cost_usd


def _cap(value: float | None) -> str:
    return "off" if value is None else f"{value:g}"


def check_route(session: Session) -> None:
    """Everything that can be refused before a request is refused here."""
    route = session.model.route(())
    if not isinstance(route, NoRoute):
        check_price_known(session.limits, route)
