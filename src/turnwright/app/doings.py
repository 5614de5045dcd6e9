"""Which steps may have changed the workspace, and how it was before and after each: read off the facts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from turnwright.schema.facts import Note, Recorded, StepStarted, ToolStarted, WorkspaceSaved
from turnwright.schema.ids import Seq, StepId
from turnwright.schema.verdicts import Effect

CHANGES: frozenset[Effect] = frozenset({"writes", "runs"})


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """A step that may have changed the workspace."""

    step_id: StepId
    began: Seq
    before: str
    after: str | None
    """None: what it left is known only as the workspace is now."""


def doings(facts: Sequence[Recorded]) -> list[Doing]:
    """In order. A step before which nothing could be saved is not among them. Where one died before its end was saved,
    the next save is the first to know what it left."""
    found: list[Doing] = []
    last: str | None = None
    began: dict[StepId, Seq] = {}
    open_step: StepId | None = None
    for recorded in facts:
        match recorded.fact:
            case StepStarted(step_id=step_id) if step_id is not None:
                began[step_id] = recorded.seq
            case ToolStarted(effect=effect, step_id=step_id) if effect in CHANGES and step_id is not None:
                open_step = open_step or step_id
            case WorkspaceSaved(tree=tree):
                if open_step is not None and last is not None:
                    found.append(Doing(step_id=open_step, began=began[open_step], before=last, after=tree))
                last, open_step = tree, None
            case Note(code="workspace-not-saved"):
                last, open_step = None, None
            case _:
                pass
    if open_step is not None and last is not None:
        found.append(Doing(step_id=open_step, began=began[open_step], before=last, after=None))
    return found


def step_at(facts: Sequence[Recorded], seq: Seq) -> StepId | None:
    """The step in which a fact lies."""
    found: StepId | None = None
    for recorded in facts:
        if recorded.seq > seq:
            break
        if isinstance(recorded.fact, StepStarted):
            found = recorded.fact.step_id
    return found
