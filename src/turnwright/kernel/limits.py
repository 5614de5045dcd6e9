"""What a turn has used, and whether a limit is near or reached. Pure; each limit has its own reason (K4, K5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from turnwright.kernel.spending import Standing
from turnwright.kernel.tiers import Standing as TierStanding
from turnwright.schema.facts import (
    ApprovalAnswered,
    AttemptEnded,
    Fact,
    GuardTripped,
    ModeChanged,
    ModelReplied,
    Note,
    StepStarted,
    SubagentEnded,
    TurnSoFar,
    Unknown,
)
from turnwright.schema.limits import Limits
from turnwright.schema.parts import Usage, add_usage
from turnwright.schema.verdicts import GOOD_VERDICTS, StopReason

WRAP_UP_SHARE = 0.95
"""From this share of a wall, token or cost limit on, the turn asks for its summary."""
WARN_SHARE = 0.80
"""From this share of a token or cost limit on, the turn has said so."""


class Fine(msgspec.Struct, frozen=True):
    """No limit is near."""


class WrapUp(msgspec.Struct, frozen=True):
    """One last step without tools, then the turn ends for this reason."""

    reason: StopReason
    why: str


class Exhausted(msgspec.Struct, frozen=True):
    """No further step."""

    reason: StopReason
    why: str


class Warned(msgspec.Struct, frozen=True):
    """It goes on, and says once that a limit is near."""

    reason: StopReason
    why: str


Stage: TypeAlias = Fine | Warned | WrapUp | Exhausted


class Tally(msgspec.Struct, kw_only=True):
    """A fold over the facts of one turn. Sums; `context_size` alone is the last step's, never a sum (K12)."""

    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    """None as soon as one attempt's cost is unknown."""
    context_size: int | None = None
    text: str = ""
    """The last thing said to the user."""
    wrapping_up: WrapUp | None = None
    """The summary was asked for. Latched: it is asked for once, and its answer ends the turn."""
    stopped: Exhausted | None = None
    """A guard wants the turn to end."""
    nudged: bool = False
    """A guard wants more than the last reply."""
    cut: bool = False
    """The last reply ended at its output limit: what follows carries it on."""
    denials: int = 0
    mode: str = "build"
    mode_steps: int = 0
    """Completed in this mode: a reply came, and its tools ran."""
    mode_told: str = ""
    """The mode that was last explained in the conversation itself."""
    answered: bool = False
    """The last reply was whole and called nothing."""
    tier: TierStanding = msgspec.field(default_factory=TierStanding)
    warned: frozenset[str] = frozenset()
    """The limits of which it was said that they are near."""

    def apply(self, fact: Fact | Unknown) -> None:
        self.tier.apply(fact)
        match fact:
            case StepStarted():
                self.steps += 1
                self.nudged = False
            case AttemptEnded(purpose="turn" | "probe"):
                self._meter(fact)
            case ModelReplied():
                self.nudged = False
                self.mode_steps += 1
                self.answered = fact.verdict == "complete" and not fact.message.calls
                if fact.message.text:
                    self.text = self.text + fact.message.text if self.cut else fact.message.text
                self.cut = fact.verdict == "length"
            case Note(code="wrap-up", data={"reason": reason}):
                self.wrapping_up = WrapUp(msgspec.convert(reason, StopReason), fact.text)
            case GuardTripped(verdict="force_answer"):
                self.nudged = True
                self.wrapping_up = self.wrapping_up or WrapUp("guard-stop", fact.why)
            case GuardTripped(verdict="ask"):
                self.nudged = True
            case GuardTripped(verdict="stop"):
                self.stopped = Exhausted(fact.reason or "guard-stop", fact.why)
                self.text = fact.text or self.text
            case Note(code="budget-warning", data={"reason": str(reason)}):
                self.warned |= {reason}
            case ModeChanged():
                self.mode, self.mode_steps, self.answered = fact.after, 0, False
            case Note(code="mode-told", data={"mode": str(mode)}):
                self.mode_told = mode
            case ApprovalAnswered(by="nobody"):
                self.denials += 1
            case SubagentEnded():
                self.usage = add_usage(self.usage, fact.usage)
                self.cost_usd = _sum(self.cost_usd, fact.cost_usd)
            case _:
                pass

    @classmethod
    def of(cls, so_far: TurnSoFar) -> Tally:
        """Where the facts of a turn's beginning are no longer read."""
        ending = WrapUp(so_far.ending, so_far.ending_why) if so_far.ending else None
        return cls(
            mode=so_far.mode,
            mode_steps=so_far.mode_steps,
            mode_told=so_far.mode_told,
            tier=TierStanding(tier=so_far.tier, base=so_far.tier_base, off=so_far.tiers_off),
            steps=so_far.steps,
            usage=so_far.usage,
            cost_usd=so_far.cost_usd,
            text=so_far.text,
            wrapping_up=ending,
            denials=so_far.denials,
            warned=frozenset(so_far.warned),
        )

    def _meter(self, fact: AttemptEnded) -> None:
        usage = fact.usage
        if usage is None:
            if fact.verdict in GOOD_VERDICTS:
                self.cost_usd, self.context_size = None, None
            return
        self.usage = add_usage(self.usage, usage)
        self.cost_usd = _sum(self.cost_usd, fact.cost_usd)
        self.context_size = None if usage.input is None or usage.output is None else usage.input + usage.output


def stage_of(tally: Tally, limits: Limits, elapsed_s: float, budgets: Sequence[Standing]) -> Stage:
    """Asked before each step. Hard limits come first; among the soft ones the narrowest thing the user named.
    `budgets` are the conversation's own and those it shares."""
    for budget in budgets:
        if spent_up := exhausted(budget):
            return spent_up
    for budget in budgets:
        if near := _near(budget, WRAP_UP_SHARE):
            return WrapUp(*near)
    if limits.turn_wall_s is not None and elapsed_s >= WRAP_UP_SHARE * limits.turn_wall_s:
        return WrapUp("wall-timeout", f"{elapsed_s:.0f} of {limits.turn_wall_s:.0f} seconds have passed")
    if limits.max_steps and tally.steps >= limits.max_steps:
        return WrapUp("max-steps", f"{tally.steps} of {limits.max_steps} steps are taken")
    # Whoever owns a budget warns of it: a hundred subagents that share one would say the same a hundred times.
    if (near := _near(budgets[0], WARN_SHARE)) and near[0] not in tally.warned:
        return Warned(*near)
    return Fine()


def exhausted(budget: Standing) -> Exhausted | None:
    """Nothing is left of it, or it can no longer be held: also between two attempts of a step."""
    spent, tokens_max, cost_max = budget.spent, budget.limits.max_tokens, budget.limits.max_cost_usd
    if tokens_max is not None:
        if spent.unmetered:
            return Exhausted("token-budget", "the provider reported no usage, so max_tokens cannot be held")
        if spent.tokens >= tokens_max:
            return Exhausted("token-budget", tokens_said(budget))
    if cost_max is not None:
        if spent.unpriced:
            return Exhausted("cost-budget", "the cost of a model call is unknown, so max_cost_usd cannot be held")
        if spent.cost_usd >= cost_max:
            return Exhausted("cost-budget", cost_said(budget))
    return None


def _near(budget: Standing, share: float) -> tuple[StopReason, str] | None:
    spent, tokens_max, cost_max = budget.spent, budget.limits.max_tokens, budget.limits.max_cost_usd
    if cost_max is not None and spent.cost_usd >= share * cost_max:
        return "cost-budget", cost_said(budget)
    if tokens_max is not None and spent.tokens >= share * tokens_max:
        return "token-budget", tokens_said(budget)
    return None


def tokens_said(budget: Standing) -> str:
    return f"{budget.spent.tokens} of {budget.limits.max_tokens} tokens are used"


def cost_said(budget: Standing) -> str:
    return f"{budget.spent.cost_usd:.4f} of {budget.limits.max_cost_usd:.4f} USD are spent"


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
