"""Taking back what steps did to the workspace, and the conversation with it (X7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from turnwright.app.versions import open_objects, rules_of
from turnwright.machine.versions.objects import Move, Objects
from turnwright.machine.versions.saving import Scanner
from turnwright.machine.versions.undoing import Plan, Stretch, carry_out, plan, towards
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Note, Recorded, StepStarted, ToolStarted, TurnStarted, WorkspaceSaved
from turnwright.schema.ids import ConversationId, Seq, StepId
from turnwright.schema.settings import VersionSettings
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
    """In order. A step before which nothing could be saved is not among them."""
    found: list[Doing] = []
    last: str | None = None
    began: dict[StepId, Seq] = {}
    open_step: StepId | None = None
    for recorded in facts:
        match recorded.fact:
            case StepStarted(step_id=step_id) if step_id is not None:
                began[step_id] = recorded.seq
            case ToolStarted(effect=effect, step_id=step_id) if effect in CHANGES and step_id is not None:
                open_step = step_id
            case WorkspaceSaved(tree=tree):
                if open_step is not None and last is not None:
                    found.append(Doing(step_id=open_step, began=began[open_step], before=last, after=tree))
                last, open_step = tree, None
            case Note(code="workspace-not-saved"):
                last, open_step = None, None
            case TurnStarted() if open_step is not None:
                pass  # it died before its end was saved: the next save is the first to know what it left
            case _:
                pass
    if open_step is not None and last is not None:
        found.append(Doing(step_id=open_step, began=began[open_step], before=last, after=None))
    return found


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    steps: tuple[Doing, ...]
    """Latest first."""
    back_to: Seq
    """The last fact that still holds."""
    left: str
    """The workspace as it was found."""


class Workshop:
    """A workspace and its versions, for as long as something is taken back."""

    def __init__(self, workspace: Path, data: Path, settings: VersionSettings, wall_ms: Callable[[], int]) -> None:
        self.workspace = workspace
        self.objects: Objects = open_objects(data)
        self._scanner = Scanner(str(workspace), self.objects, rules_of(settings))
        self._wall_ms = wall_ms

    def close(self) -> None:
        self.objects.close()

    def undo(self, conversation: str, facts: Sequence[Recorded], seq: Seq | None, only: str | None) -> Undo:
        """What taking back would do: everything after `seq`, or the last step that changed something. Nothing is
        changed by asking."""
        now = self._save()
        steps: list[Doing] = []
        for doing in reversed(doings(facts)):
            if seq is not None and doing.began <= seq:
                break
            steps.append(doing)
            if seq is None and (doing.after or now.hex()) != doing.before:
                break
        if not steps or all((step.after or now.hex()) == step.before for step in steps):
            where = f"after {conversation}:{seq}" if seq is not None else f"in {conversation}"
            raise InputError(
                f"No step {where} has changed a file of {self.workspace} that was saved.",
                remedy=f"See turnwright show {conversation}; a step is there only if versions were on when it ran.",
            )
        stretches = [_stretch(step, now) for step in steps]
        made = plan(now, stretches, self.objects, only)
        back_to = steps[-1].began - 1 if seq is None else seq
        return Undo(plan=made, steps=tuple(steps), back_to=back_to, left=now.hex())

    def carry_out(self, undo: Undo, conversation: ConversationId, fork: ConversationId) -> None:
        carry_out(str(self.workspace), undo.plan, self.objects)
        reached = self._save()
        with self.objects.writing():
            move = Move(left=bytes.fromhex(undo.left), reached=reached, conversation=conversation, fork=fork)
            self.objects.push_move(str(self.workspace), move)

    def redo(self, *, force: bool) -> Move:
        """The other way. Only from where the undo led to, unless what has changed since may go."""
        move = self.objects.last_move(str(self.workspace))
        if move is None:
            raise InputError(f"Nothing was undone in {self.workspace}.", remedy="See turnwright undo --help.")
        now = self._save()
        if now != move.reached and not force:
            raise InputError(
                f"{self.workspace} has changed since the undo that would be taken back.",
                remedy="Look with git diff; --force puts everything as it was before the undo all the same.",
            )
        carry_out(str(self.workspace), towards(now, move.left, self.objects), self.objects)
        with self.objects.writing():
            self.objects.pop_move(str(self.workspace))
        self._save()
        return move

    def _save(self) -> bytes:
        return self._scanner.save(self._wall_ms() * 1_000_000).tree


def _stretch(step: Doing, now: bytes) -> Stretch:
    return Stretch(bytes.fromhex(step.before), bytes.fromhex(step.after) if step.after is not None else now)
