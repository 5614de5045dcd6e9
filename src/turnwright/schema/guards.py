"""What a user may set about guards: the thresholds of each, with its defaults. The one place where they stand.

What each guard watches and does is in `kernel/guards/registry.py`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

Count: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]
Scalar: TypeAlias = str | int | float | bool | None


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every guard has."""

    enabled: bool = True
    """Whether it watches at all."""


class LoopGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.loop`: the same call with the same result, again and again."""

    window: Count = 10
    """How many of the last calls are looked at."""
    warn_at: Count = 3
    """So many equal ones, and the model is told."""
    block_at: Count = 4
    """The call that would be this one is not executed."""
    alternate_at: Count = 6
    """So many calls that alternate between two, and neither is executed again."""
    monologue_at: Count = 3
    """So many replies in a row without a call, where a reply does not end the turn, and an answer is asked for."""


class RefusedGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.refused`: calls that cannot be executed, in spite of being told why."""

    in_a_row: Count = 4
    """So many one after the other, and an answer is asked for."""
    in_a_turn: Count = 6
    """So many in the turn, and an answer is asked for."""


class ToolBudgetGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.tool_budget`: how many calls a turn and a reply may make."""

    calls: Count = 1000
    """In a turn."""
    warn_share: Share = 0.8
    """From this share on the model is told."""
    per_reply: Count = 64
    """In one reply; what is beyond is not executed."""


class ProgressGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.progress`: whether calls still lead to anything new, be it a new file, a new query or a new result."""

    analysis: Count = 50
    """Calls before it looks, where the task is to find something out; then it looks at as many of the last ones."""
    action: Count = 30
    """The same where something is to be changed."""
    other: Count = 8
    """The same for everything else."""
    share: Share = 0.25
    """The share of them that must have led to something new, or an answer is asked for."""


class EmptyGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.empty`: replies with nothing in them, and turns that would end without a word."""

    delays_s: tuple[float, ...] = (2.0, 4.0)
    """Pauses before the model is asked again, in other words; one for each time."""
    warmer: tuple[float, ...] = (0.2, 0.3)
    """How far above its usual temperature it is then asked."""
    warmer_if_thinking: tuple[float, ...] = (0.1, 0.2)
    """The same for a model that thinks before it answers."""


class ReasoningOnlyGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.reasoning_only`: replies that are thoughts and nothing else."""

    nudges: Count = 1
    """How often in a row the model is asked for the answer itself."""


class AnnouncedGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.announced`: replies that end by saying what will be done, and do not do it."""

    nudges: Count = 2
    """How often in a row the model is asked to do it; then an answer is asked for."""


class LengthGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.length`: replies that were cut at the output limit."""

    continues: Count = 1
    """How often in a row the model may carry on; then the turn ends as `length`, with what there is."""


class RepetitionGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.repetition`: one reply that repeats itself, in its text, its reasoning or the arguments of a call."""

    segment_chars: Annotated[int, msgspec.Meta(ge=24)] = 24
    """From this length on a repeated segment counts."""
    segment_times: Annotated[int, msgspec.Meta(ge=2)] = 6
    """So many of them in a row end the attempt."""
    block_chars: Annotated[int, msgspec.Meta(ge=24)] = 256
    """From this length on it is a block. What repeats something shorter than a segment is measured in blocks too."""
    block_times: Annotated[int, msgspec.Meta(ge=2)] = 3
    """So many of them in a row end the attempt."""
    nudges: Annotated[int, msgspec.Meta(ge=0)] = 1
    """How often in a turn the model is asked again; then the turn is stopped."""
    warmer: float = 0.2
    """How far above its usual temperature it is then asked."""


class InjectionGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.injection`: text that poses as the conversation's own: marks of chat templates, orders to the model."""

    told_max: Count = 3
    """How often in a turn the model is told of it. Every find is on record."""


class PreconditionsGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.preconditions`: commands that cannot succeed, because a file that they need, or what they name in it, is
    not there: a `make` without its Makefile or its target."""


class Completion(GuardSettings, frozen=True, kw_only=True):
    """`completion`: when a turn is done. With none of these, it is done with a reply that calls no tool."""

    tool: bool = False
    """The model is offered the tool mark_task_complete, and the turn is done when it has called it."""
    sentinel: str = ""
    """The turn is done with a reply that has this on a line of its own. Empty: none is asked for."""
    evidence: bool = False
    """A task is done only after a change in the workspace that no later command failed on, or a command with exit 0."""
    asks: Count = 2
    """How often in a row the model is asked for the evidence; then the turn is stopped."""


class PluginGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.<name>`: a guard of an installed package; it watches once it is named here."""

    options: dict[str, Scalar] = {}
    """Its own settings, as its package describes them."""


class Guards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`guards`: what watches over a turn, so that it ends and ends usefully. `turnwright guards list` explains each.
    Every other key of this section is the name of an installed package's guard."""

    rest: ClassVar[str] = "plugins"

    loop: LoopGuard = LoopGuard()
    refused: RefusedGuard = RefusedGuard()
    tool_budget: ToolBudgetGuard = ToolBudgetGuard()
    progress: ProgressGuard = ProgressGuard()
    empty: EmptyGuard = EmptyGuard()
    reasoning_only: ReasoningOnlyGuard = ReasoningOnlyGuard()
    announced: AnnouncedGuard = AnnouncedGuard()
    length: LengthGuard = LengthGuard()
    repetition: RepetitionGuard = RepetitionGuard()
    preconditions: PreconditionsGuard = PreconditionsGuard()
    injection: InjectionGuard = InjectionGuard()
    plugins: dict[str, PluginGuard] = {}
