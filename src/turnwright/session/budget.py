"""What a task and everything under it may spend: reserved before a call, settled after it (K6).

A budget belongs to a conversation; a subagent's lies within that of whoever sent it. A call starts where all that it
could spend still fits, in every budget above it. Where it does not fit because of other calls in flight, it waits until
they are settled. Where it does not fit by itself, it may start as long as something is left and no other is in flight:
so the budget is used to its end, and never passed by more than one reservation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.kernel.cost import reserve_of
from turnwright.kernel.limits import exhausted
from turnwright.kernel.ports import Refused
from turnwright.kernel.spending import Charge, Spending, Standing
from turnwright.schema.errors import ConfigError, InputError
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId
from turnwright.schema.limits import Limits
from turnwright.schema.routes import Route
from turnwright.session.ports import Journal

NOTHING = Charge()


class Asked(msgspec.Struct, frozen=True):
    """The most that a call could spend. `cost_usd` is None where the price is unknown."""

    tokens: int
    cost_usd: float | None


class Account:
    """`kernel.ports.Ledger` for one conversation, within the budgets above it."""

    def __init__(self, limits: Limits, *, spent: Charge = NOTHING, within: Account | None = None) -> None:
        """`spent` is what its task spent before, as the journal has it; those above have counted it already."""
        self.limits = limits
        self.spent = spent
        self._within = within
        self._held: set[Reserved] = set()
        self._line: deque[_Waiting] = deque() if within is None else within._line

    async def reserve(self, route: Route, input_tokens: int, output_tokens: int) -> Reserved | Refused:
        cost_usd = reserve_of(route.price, input_tokens, output_tokens) if route.price else None
        asked = Asked(input_tokens + output_tokens, cost_usd)
        answer = self._answer(asked) if not self._line else "wait"
        return await self._wait(asked) if answer == "wait" else answer

    def standings(self) -> tuple[Standing, ...]:
        return tuple(Standing(account.spent, account.limits) for account in self._path())

    @property
    def held(self) -> int:
        """How many calls are in flight, those of subagents included."""
        return len(self._held)

    def _path(self) -> Iterator[Account]:
        account: Account | None = self
        while account is not None:
            yield account
            account = account._within

    def _answer(self, asked: Asked) -> Reserved | Refused | Literal["wait"]:
        rooms = [account._room_for(asked) for account in self._path()]
        refused = next((room for room in rooms if isinstance(room, Refused)), None)
        if refused is not None:
            return refused
        if "wait" in rooms:
            return "wait"
        reserved = Reserved(self, asked)
        for account in self._path():
            account._held.add(reserved)
        return reserved

    def _room_for(self, asked: Asked) -> _Room:
        standing = Standing(self.spent, self.limits)
        tokens_max, cost_max = self.limits.max_tokens, self.limits.max_cost_usd
        waits = False
        if (spent_up := exhausted(standing)) is not None:
            return Refused("cost-budget" if spent_up.reason == "cost-budget" else "token-budget", spent_up.why)
        if tokens_max is not None:
            held = sum(one.tokens for one in self._held)
            waits = bool(self._held) and self.spent.tokens + held + asked.tokens > tokens_max
        if cost_max is not None:
            if asked.cost_usd is None:
                return Refused("cost-budget", "the price of a call is unknown, so max_cost_usd cannot be held")
            held_usd = sum(one.cost_usd or 0.0 for one in self._held)
            waits |= bool(self._held) and self.spent.cost_usd + held_usd + asked.cost_usd > cost_max
        return "wait" if waits else "free"

    async def _wait(self, asked: Asked) -> Reserved | Refused:
        """In turn: a large call must not wait for ever while small ones pass it."""
        place = _Waiting(self, asked)
        self._line.append(place)
        try:
            return await place.answer
        except asyncio.CancelledError:
            if place.answer.cancelled():
                self._line.remove(place)
            elif isinstance(held := place.answer.result(), Reserved):
                held.settle(NOTHING)
            self._advance()
            raise

    def _advance(self) -> None:
        while self._line and not self._line[0].answer.cancelled():
            place = self._line[0]
            answer = place.account._answer(place.asked)
            if answer == "wait":
                return
            self._line.popleft()
            place.answer.set_result(answer)

    def settled(self, reserved: Reserved, charge: Charge) -> None:
        for account in self._path():
            account._held.remove(reserved)
            account.spent += charge
        self._advance()


_Room: TypeAlias = Refused | Literal["wait", "free"]


class _Waiting:
    def __init__(self, account: Account, asked: Asked) -> None:
        self.account = account
        self.asked = asked
        self.answer: asyncio.Future[Reserved | Refused] = asyncio.get_running_loop().create_future()


class Reserved:
    """`kernel.ports.Reservation`."""

    def __init__(self, account: Account, asked: Asked) -> None:
        self.tokens = asked.tokens
        self.cost_usd = asked.cost_usd
        self._account: Account | None = account

    def settle(self, charge: Charge) -> None:
        account, self._account = self._account, None
        if account is not None:
            account.settled(self, charge)


async def spent_by(journal: Journal[Any], conversation_id: ConversationId) -> Charge:
    """What the last task of a conversation has spent, as its journal and those of its subagents have it."""
    spending = Spending()
    for recorded in await journal.opening(conversation_id):
        spending.apply(recorded.fact)
    return await with_subagents(journal, spending)


async def spent_in(journal: Journal[Any], conversation_id: ConversationId) -> Charge:
    """The same for all of its tasks: a subagent's are all one to whoever sent it."""
    spending = Spending(whole=True)
    for recorded in await facts_below(journal, conversation_id):
        spending.apply(recorded.fact)
    return await with_subagents(journal, spending)


async def facts_below(journal: Journal[Any], conversation_id: ConversationId) -> Sequence[Recorded]:
    """Of a subagent. There are none where a crash came between its being sent and its beginning."""
    try:
        return await journal.since(conversation_id)
    except InputError:
        return ()


async def with_subagents(journal: Journal[Any], spending: Spending) -> Charge:
    """A subagent that has no end has spent what its own journal says."""
    spent = spending.spent
    for child in spending.subagents:
        spent += await spent_in(journal, child)
    return spent


def check_price_known(limits: Limits, route: Route) -> None:
    """A USD cap cannot be held where the price is unknown: refused before any request."""
    if limits.max_cost_usd is not None and route.price is None:
        raise ConfigError(
            f"loop.limits.max_cost_usd = {limits.max_cost_usd:g} cannot be held: the price of {route.name} is unknown.",
            remedy=f"Give it under catalogue.models.{route.model}.price, or cap tokens with loop.limits.max_tokens.",
        )
