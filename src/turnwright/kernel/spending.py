"""What model calls have spent of a budget: one rule for the live ledger and for the fold over its facts. Pure."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    ContextCompacted,
    Fact,
    SubagentEnded,
    SubagentStarted,
    TaskSoFar,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import ConversationId
from turnwright.schema.limits import Limits
from turnwright.schema.verdicts import GOOD_VERDICTS, ErrorKind, Verdict

NOT_ANSWERED: frozenset[Verdict] = frozenset({"http_error", "interstitial", "non_json"})
"""No model was reached, so nobody is charged."""
TURNED_AWAY: frozenset[ErrorKind] = frozenset(
    {"bad_request", "auth", "billing", "permission", "not_found", "too_large", "rate_limit", "overloaded"}
)
"""The provider would not take the request, whatever the status it said so with."""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What counts against a budget. Where the provider did not say, it is all that the call could have spent."""

    tokens: int = 0
    cost_usd: float = 0.0
    unmetered: bool = False
    """A good reply came without usage: a token cap can no longer be held."""
    unpriced: bool = False
    """What a good reply cost is not known: a USD cap can no longer be held."""

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            unmetered=self.unmetered or other.unmetered,
            unpriced=self.unpriced or other.unpriced,
        )


class Standing(msgspec.Struct, frozen=True):
    """One budget: what is spent, and what may be."""

    spent: Charge
    limits: Limits


def whole_of(tokens: int, cost_usd: float | None) -> Charge:
    """All that a call could have spent, where nobody saw what became of it."""
    return Charge(tokens=tokens, cost_usd=cost_usd or 0.0, unpriced=cost_usd is None)


def charge_of(ended: AttemptEnded, reserved: Charge) -> Charge:
    """From the usage that was reported. A good reply without it is charged in full and known to be a guess; so is one
    that broke off, whose work may be charged for. Where no model was reached, nothing is."""
    usage, good = ended.usage, ended.verdict in GOOD_VERDICTS
    if usage is None and not good and not _may_be_charged(ended):
        return Charge()
    metered = usage is not None and usage.input is not None and usage.output is not None
    return Charge(
        tokens=(usage.input or 0) + (usage.output or 0) if usage is not None and metered else reserved.tokens,
        cost_usd=reserved.cost_usd if ended.cost_usd is None else ended.cost_usd,
        unmetered=good and not metered,
        unpriced=ended.cost_usd is None and (good or reserved.unpriced),
    )


def _may_be_charged(ended: AttemptEnded) -> bool:
    fault = ended.fault
    if ended.verdict in NOT_ANSWERED or (fault is not None and fault.stall == "connect"):
        return False
    if ended.verdict == "transport" and ended.bytes_in == 0:
        return False
    began = ended.timing.ttft_ms is not None
    return began or fault is None or fault.kind not in TURNED_AWAY


_Call: TypeAlias = tuple[str | None, str | None, str, int]


class Spending(msgspec.Struct, kw_only=True):
    """A fold over the facts of one conversation: what its task has spent so far, whatever the calls were for, and what
    its subagents have. A task is a turn and those that carry it on."""

    settled: Charge = Charge()
    under_way: dict[_Call, AttemptStarted] = {}
    subagents: dict[ConversationId, SubagentStarted] = {}
    """Those that have no end: what they have spent stands in their own journals."""
    whole: bool = False
    """All tasks of the conversation count, and not the last one alone; every fact of it must be given."""

    def apply(self, fact: Fact | Unknown) -> None:
        match fact:
            case TurnStarted(continued=False) if not self.whole:
                self.settled = Charge()
                self.under_way, self.subagents = {}, {}
            case ContextCompacted(task=TaskSoFar() as so_far) if not self.whole:
                # What came before may not have been read; between two steps nothing is under way.
                self.settled = charge_in(so_far)
                self.under_way, self.subagents = {}, {}
            case AttemptStarted():
                self.under_way[_call_of(fact)] = fact
            case AttemptEnded():
                started = self.under_way.pop(_call_of(fact), None)
                self.settled += charge_of(fact, _reserved(started))
            case SubagentStarted(conversation=child):
                self.subagents[child] = fact
            case SubagentEnded(conversation=child):
                self.subagents.pop(child, None)
                self.settled += charge_in(fact)
            case _:
                pass

    @property
    def spent(self) -> Charge:
        """What is under way counts in full: a crash may have cut it off, or its end is yet to come."""
        return sum(map(_reserved, self.under_way.values()), self.settled)


def charge_in(fact: SubagentEnded | TaskSoFar) -> Charge:
    return Charge(tokens=fact.spent_tokens, cost_usd=fact.spent_usd, unmetered=fact.unmetered, unpriced=fact.unpriced)


def _reserved(started: AttemptStarted | None) -> Charge:
    return whole_of(started.reserved_tokens, started.reserved_usd) if started else Charge()


def _call_of(fact: AttemptStarted | AttemptEnded) -> _Call:
    return fact.turn_id, fact.step_id, fact.purpose, fact.attempt
