"""The guards there are, in the order in which they are asked. The one table: the reference, `turnwright guards list`
and the test that each guard trips through the real command line are made from it."""

from __future__ import annotations

from typing import Any

import msgspec

from turnwright.kernel.guards import (
    announced,
    completion,
    empty,
    injection,
    length,
    loop,
    preconditions,
    progress,
    reasoning_only,
    refused,
    repetition,
    tool_budget,
)
from turnwright.kernel.guards.guard_set import Chosen
from turnwright.kernel.guards.kind import Kind
from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    GuardTripped,
    ModelReplied,
    Note,
    SteeringDelivered,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnStarted,
)
from turnwright.schema.guards import (
    AnnouncedGuard,
    Completion,
    EmptyGuard,
    Guards,
    GuardSettings,
    InjectionGuard,
    LengthGuard,
    LoopGuard,
    PreconditionsGuard,
    ProgressGuard,
    ReasoningOnlyGuard,
    RefusedGuard,
    RepetitionGuard,
    ToolBudgetGuard,
)

GUARDS: tuple[Kind, ...] = (
    Kind(
        name=loop.NAME,
        watches="the same call with the same result again and again, two calls in turns, replies without calls",
        verdicts=("warn", "block", "force_answer"),
        reasons=("guard-stop",),
        settings=LoopGuard,
        sees=(ModelReplied, ToolStarted, ToolEnded, GuardTripped),
        make=loop.Loop,
    ),
    Kind(
        name=refused.NAME,
        watches="calls that cannot be executed: malformed, unknown, not offered, forbidden",
        verdicts=("force_answer",),
        reasons=("guard-stop",),
        settings=RefusedGuard,
        sees=(ToolEnded,),
        make=refused.Refused,
    ),
    Kind(
        name=tool_budget.NAME,
        watches="how many calls the turn and one reply make",
        verdicts=("warn", "truncate", "force_answer"),
        reasons=("guard-stop",),
        settings=ToolBudgetGuard,
        sees=(ModelReplied, ToolEnded),
        make=tool_budget.ToolBudget,
    ),
    Kind(
        name=progress.NAME,
        watches="whether calls still lead to new files, queries or results",
        verdicts=("force_answer",),
        reasons=("guard-stop",),
        settings=ProgressGuard,
        sees=(TurnStarted, ContextCompacted, ModelReplied, ToolStarted, ToolEnded),
        make=progress.Progress,
    ),
    Kind(
        name=length.NAME,
        watches="replies that were cut at the output limit",
        verdicts=("ask",),
        reasons=("length",),
        settings=LengthGuard,
        sees=(ModelReplied,),
        make=length.Length,
    ),
    Kind(
        name=reasoning_only.NAME,
        watches="replies that are reasoning and nothing else",
        verdicts=("ask", "stop"),
        reasons=("provider-error",),
        settings=ReasoningOnlyGuard,
        sees=(ModelReplied,),
        make=reasoning_only.ReasoningOnly,
    ),
    Kind(
        name=announced.NAME,
        watches="replies that end by announcing an act, without a call",
        verdicts=("ask", "force_answer"),
        reasons=("guard-stop",),
        settings=AnnouncedGuard,
        sees=(StepStarted, ModelReplied),
        make=announced.Announced,
    ),
    Kind(
        name=repetition.NAME,
        watches="one reply that repeats itself: text, reasoning or arguments; it also looks on while the reply comes",
        verdicts=("ask", "stop"),
        reasons=("guard-stop",),
        settings=RepetitionGuard,
        sees=(AttemptEnded, ModelReplied),
        make=repetition.Repetition,
        watch=repetition.Watch,
    ),
    Kind(
        name=preconditions.NAME,
        watches="commands whose file or target is not there: make, npm run",
        verdicts=("block",),
        settings=PreconditionsGuard,
        sees=(ModelReplied, Note),
        make=preconditions.Preconditions,
    ),
    Kind(
        name=completion.NAME,
        key="completion",
        watches="whether the task is done, where more than a reply without a call is asked for",
        verdicts=("ask", "block", "stop"),
        reasons=("stop", "guard-stop"),
        settings=Completion,
        sees=(StepStarted, ModelReplied, ToolStarted, ToolEnded),
        make=completion.Complete,
    ),
    Kind(
        name=injection.NAME,
        watches="marks of chat templates and orders to the model, in the user's text and the output of tools",
        verdicts=("warn",),
        settings=InjectionGuard,
        sees=(TurnStarted, SteeringDelivered, ToolEnded),
        make=injection.Injection,
    ),
    Kind(
        name=empty.NAME,
        watches="replies with nothing in them, and last steps that bring no answer",
        verdicts=("ask", "stop"),
        reasons=("provider-error", "guard-stop"),
        settings=EmptyGuard,
        sees=(StepStarted, AttemptEnded, ModelReplied, ToolEnded, GuardTripped, Note),
        make=empty.Empty,
    ),
)
"""In the order in which they are asked: of two that want the same, the first is heard."""


def chosen(guards: Guards, done: Completion) -> Chosen:
    """The built-in guards that are switched on, with their settings."""
    every = [(kind, settings_of(kind, guards, done)) for kind in GUARDS]
    return [(kind, settings) for kind, settings in every if settings.enabled]


def settings_of(kind: Kind, guards: Guards, done: Completion) -> GuardSettings:
    settings: GuardSettings = done if kind.settings is Completion else getattr(guards, kind.name)
    return settings


def thresholds(settings: GuardSettings) -> dict[str, Any]:
    """What can be set besides switching it off."""
    return {name: value for name, value in msgspec.structs.asdict(settings).items() if name != "enabled"}
