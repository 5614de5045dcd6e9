"""Subagents (S3): conversations that a conversation sends out, each with a brief, tools and a share of its budget.

A subagent is the same loop in a conversation of its own, linked to the one that sent it. Its model calls are held
against every budget above it, what it asks is asked by whoever sent it, and it ends when that one is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import msgspec

from turnwright.kernel.limits import Tally
from turnwright.kernel.ports import ABANDON_AFTER_S, Ask, Delegation, Ids, Question, ToolContext, Tools
from turnwright.kernel.spending import Charge, Spending
from turnwright.schema.errors import ToolFailure
from turnwright.schema.facts import (
    ContextCompacted,
    Errand,
    Fact,
    Recorded,
    SubagentEnded,
    SubagentStarted,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import CallId, ConversationId
from turnwright.schema.limits import Limits
from turnwright.schema.settings import SubagentSettings
from turnwright.session.broadcast import Event
from turnwright.session.budget import Account, facts_below, spent_in
from turnwright.session.ports import Journal

TASK = "task"
"""The tool that sends subagents: those at the greatest depth are not offered it."""
TITLE_CHARS = 80
SHOWN_CHARS = 120
DIED = "the process that ran it died"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a subagent comes from."""

    parent: ConversationId
    call_id: CallId
    """The call there that sent it."""
    errand: Errand
    title: str


class Child(Protocol):
    """The conversation of a subagent."""

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]: ...

    async def say(self, text: str) -> object: ...

    def stop(self) -> None: ...

    async def close(self) -> None: ...


Begin: TypeAlias = Callable[[ConversationId, Origin], Awaitable[Child]]
"""Opens the conversation, under an id that is on record already."""


class Sending(Protocol):
    """What a conversation needs to send subagents; `app` puts it together."""

    @property
    def rules(self) -> SubagentSettings: ...

    @property
    def depth(self) -> int:
        """Of those that are sent; 1 where nobody sent the conversation itself."""
        ...

    def ready(self, errand: Errand, ask: Ask, within: Account) -> AbstractAsyncContextManager[Begin]:
        """Model, tools and all; whatever is wrong with them is raised before anything is on record."""
        ...


class Subagents:
    """`kernel.ports.Subagents` of one conversation."""

    def __init__(
        self,
        sending: Sending,
        parent: ConversationId,
        tools: Tools,
        mode: str,
        ids: Ids,
        account: Callable[[], Account],
    ) -> None:
        self.sent = 0
        """Ever, by this conversation."""
        self.mode = mode
        """Of the step that sends them."""
        self._tools = tools
        self._ids = ids
        self._sending = sending
        self._parent = parent
        self._account = account
        self._slots = asyncio.Semaphore(sending.rules.at_once)

    def recall(self, fact: Fact | Unknown) -> None:
        match fact:
            case SubagentStarted():
                self.sent += 1
            case ContextCompacted(subagents_sent=sent):
                self.sent = max(self.sent, sent)
            case _:
                pass

    @asynccontextmanager
    async def place(self, wanted: Delegation, context: ToolContext) -> AsyncIterator[Sent]:
        errand = self._errand(wanted)
        most = self._sending.rules.per_conversation
        if self.sent >= most:
            raise ToolFailure(
                f"This conversation has sent {self.sent} subagents, and subagents.per_conversation is {most}.",
                remedy="Do the rest yourself.",
            )
        self.sent += 1
        async with self._slots:
            within = Account(_caps(errand), within=self._account())
            ask = _asked_by(context, _title(wanted))
            async with self._sending.ready(errand, ask, within) as begin:
                origin = Origin(parent=self._parent, call_id=context.call_id, errand=errand, title=_title(wanted))
                yield Sent(self._ids.new("conversation"), origin, wanted.brief, begin, within, context)

    def _errand(self, wanted: Delegation) -> Errand:
        depth = self._sending.depth
        offered = [spec.name for spec in self._tools.offered(self.mode)]
        unknown = [name for name in wanted.tools if name not in offered]
        if unknown:
            raise ToolFailure(
                f"You have no tool named {', '.join(unknown)}.", remedy=f"There are: {', '.join(offered)}."
            )
        tools = [name for name in offered if name in (wanted.tools or offered)]
        return Errand(
            depth=depth,
            mode=self.mode,
            tools=tuple(name for name in tools if name != TASK or depth < self._sending.rules.depth),
            model=self._sending.rules.model,
            max_steps=_least(wanted.max_steps, self._sending.rules.max_steps),
            max_tokens=wanted.max_tokens,
            max_cost_usd=wanted.max_cost_usd,
        )


class Sent:
    """`kernel.ports.Subagent`."""

    def __init__(
        self,
        conversation_id: ConversationId,
        origin: Origin,
        brief: str,
        begin: Begin,
        within: Account,
        context: ToolContext,
    ) -> None:
        self.started = SubagentStarted(conversation=conversation_id, errand=origin.errand)
        self.ended: SubagentEnded | None = None
        self._origin = origin
        self._brief = brief
        self._begin = begin
        self._within = within
        self._context = context
        self._life = Life()

    async def run(self) -> SubagentEnded:
        conversation = await self._begin(self.started.conversation, self._origin)
        unlisten = conversation.listen(self._hear)
        turn = asyncio.ensure_future(conversation.say(self._brief))
        try:
            await asyncio.shield(turn)
        except asyncio.CancelledError:
            conversation.stop()
            await asyncio.wait([turn])
            if not turn.cancelled():
                turn.exception()  # it is in the subagent's own journal, and this turn ends for another reason
            raise
        finally:
            unlisten()
            self.ended = self._life.ended(self.started, self._within.spent)
            await conversation.close()
        return self.ended

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Recorded):
            return
        self._life.apply(event.fact)
        if isinstance(event.fact, ToolStarted):
            shown = f"{event.fact.name} {event.fact.arguments}"
            self._context.output(f"{shown[:SHOWN_CHARS]}…\n" if len(shown) > SHOWN_CHARS else f"{shown}\n")


class Life(msgspec.Struct):
    """A fold over the facts of a subagent's conversation: how far it has come."""

    tally: Tally = msgspec.field(default_factory=Tally)
    end: TurnEnded | None = None

    def apply(self, fact: Fact | Unknown) -> None:
        match fact:
            case TurnStarted():
                self.end = None
            case TurnEnded():
                self.end = fact
            case _:
                self.tally.apply(fact)

    def ended(self, started: SubagentStarted, spent: Charge) -> SubagentEnded:
        end = self.end
        return SubagentEnded(
            turn_id=started.turn_id,
            step_id=started.step_id,
            call_id=started.call_id,
            conversation=started.conversation,
            reason=end.reason if end else None,
            detail=end.detail if end else DIED,
            steps=self.tally.steps,
            usage=self.tally.usage,
            cost_usd=self.tally.cost_usd,
            spent_tokens=spent.tokens,
            spent_usd=spent.cost_usd,
            unmetered=spent.unmetered,
            unpriced=spent.unpriced,
            text=end.text if end else self.tally.text,
        )


async def left_open(journal: Journal[Any], spending: Spending) -> Sequence[SubagentEnded]:
    """The ends of the subagents that have none on record, as their own journals tell them."""
    ends = []
    for child, started in spending.subagents.items():
        life = Life()
        for recorded in await facts_below(journal, child):
            life.apply(recorded.fact)
        ends.append(life.ended(started, await spent_in(journal, child)))
    return ends


def _asked_by(context: ToolContext, title: str) -> Ask:
    """What a subagent asks is asked by the call that sent it: on record there too, and put to whoever answers there."""

    async def ask(question: Question) -> str | None:
        asks = f"subagent “{title}”, {question.tool}" if question.tool else f"subagent “{title}”"
        return await context.ask(f"[{asks}] {question.text}", question.choices)

    return ask


def _title(wanted: Delegation) -> str:
    return " ".join((wanted.title or wanted.brief).split())[:TITLE_CHARS]


def _caps(errand: Errand) -> Limits:
    return Limits(max_tokens=errand.max_tokens, max_cost_usd=errand.max_cost_usd)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def within_errand(limits: Limits, errand: Errand) -> Limits:
    """What a subagent may do at most: what any conversation may here, and what it was sent with."""
    return msgspec.structs.replace(
        limits,
        max_steps=errand.max_steps if errand.max_steps is not None else limits.max_steps,
        max_tokens=errand.max_tokens,
        max_cost_usd=errand.max_cost_usd,
    )


def patience_s(depth: int) -> float:
    """The deeper, the less: whoever waits for a subagent's end must still be there when it has one."""
    return max(0.2, ABANDON_AFTER_S - 0.1 * depth)
