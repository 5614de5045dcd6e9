"""What a turn has used, and whether a limit is near or reached. Pure; each limit has its own reason (K4, K5)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from turnwright.schema.facts import (
    ApprovalAnswered,
    AttemptEnded,
    Fact,
    GuardTripped,
    ModelReplied,
    Note,
    StepStarted,
    TurnSoFar,
    Unknown,
)
from turnwright.schema.limits import Limits
from turnwright.schema.parts import Usage, add_usage
from turnwright.schema.verdicts import GOOD_VERDICTS, StopReason

WRAP_UP_SHARE = 0.95
"""From this share of a wall or token limit on, the turn asks for its summary."""


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


Stage: TypeAlias = Fine | WrapUp | Exhausted


class Tally(msgspec.Struct, kw_only=True):
    """A fold over the facts of one turn. Sums; `context_size` alone is the last step's, never a sum (K12)."""

    steps: int = 0
    usage: Usage = Usage()
    unmetered: bool = False
    """A good attempt came without usage, so the sums are a lower bound."""
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

    def apply(self, fact: Fact | Unknown) -> None:
        match fact:
            case StepStarted():
                self.steps += 1
                self.nudged = False
            case AttemptEnded(purpose="turn" | "probe"):
                self._meter(fact)
            case ModelReplied():
                self.nudged = False
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
            case ApprovalAnswered(by="nobody"):
                self.denials += 1
            case _:
                pass

    @classmethod
    def of(cls, so_far: TurnSoFar) -> Tally:
        """Where the facts of a turn's beginning are no longer read."""
        ending = WrapUp(so_far.ending, so_far.ending_why) if so_far.ending else None
        return cls(
            steps=so_far.steps,
            usage=so_far.usage,
            unmetered=so_far.unmetered,
            cost_usd=so_far.cost_usd,
            text=so_far.text,
            wrapping_up=ending,
            denials=so_far.denials,
        )

    @property
    def tokens(self) -> int:
        return (self.usage.input or 0) + (self.usage.output or 0)

    def _meter(self, fact: AttemptEnded) -> None:
        usage = fact.usage
        if usage is None:
            if fact.verdict in GOOD_VERDICTS:
                self.unmetered, self.cost_usd, self.context_size = True, None, None
            return
        self.usage = add_usage(self.usage, usage)
        self.unmetered = self.unmetered or usage.input is None or usage.output is None
        self.cost_usd = None if self.cost_usd is None or fact.cost_usd is None else self.cost_usd + fact.cost_usd
        self.context_size = None if usage.input is None or usage.output is None else usage.input + usage.output


def stage_of(tally: Tally, limits: Limits, elapsed_s: float) -> Stage:
    """Asked before each step. Hard limits come first; among the soft ones the narrowest thing the user named."""
    if limits.max_tokens is not None:
        if tally.unmetered:
            return Exhausted("token-budget", "the provider reported no usage, so max_tokens cannot be held")
        if tally.tokens >= limits.max_tokens:
            return Exhausted("token-budget", f"{tally.tokens} of {limits.max_tokens} tokens are used")
    if limits.max_cost_usd is not None:
        if tally.cost_usd is None:
            return Exhausted("cost-budget", "the cost of a model call is unknown, so max_cost_usd cannot be held")
        if tally.cost_usd >= limits.max_cost_usd:
            return Exhausted("cost-budget", f"{tally.cost_usd:.4f} of {limits.max_cost_usd:.4f} USD are spent")
        if tally.cost_usd >= WRAP_UP_SHARE * limits.max_cost_usd:
            return WrapUp("cost-budget", f"{tally.cost_usd:.4f} of {limits.max_cost_usd:.4f} USD are spent")
    if limits.max_tokens is not None and tally.tokens >= WRAP_UP_SHARE * limits.max_tokens:
        return WrapUp("token-budget", f"{tally.tokens} of {limits.max_tokens} tokens are used")
    if limits.turn_wall_s is not None and elapsed_s >= WRAP_UP_SHARE * limits.turn_wall_s:
        return WrapUp("wall-timeout", f"{elapsed_s:.0f} of {limits.turn_wall_s:.0f} seconds have passed")
    if limits.max_steps and tally.steps >= limits.max_steps:
        return WrapUp("max-steps", f"{tally.steps} of {limits.max_steps} steps are taken")
    return Fine()
