"""A workspace and its versions, for as long as something is taken back. Everything here blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from turnwright.app.doings import Doing, doings
from turnwright.app.versions import FOLDER, open_objects, rules_of
from turnwright.machine.versions.objects import Move, Objects
from turnwright.machine.versions.pending import Pending, PendingFile
from turnwright.machine.versions.saving import Scanner
from turnwright.machine.versions.undoing import Plan, Stretch, backwards, carry_out, changed_since, plan
from turnwright.schema.errors import InputError, MachineError, TurnwrightError
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import Seq
from turnwright.schema.settings import VersionSettings
from turnwright.views.cut import consistent_cut


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    steps: tuple[Doing, ...]
    """Latest first."""
    back_to: Seq
    """The last fact that still holds."""
    left: str
    """The workspace as it was found."""


class Workshop:
    def __init__(self, workspace: Path, data: Path, settings: VersionSettings, wall_ms: Callable[[], int]) -> None:
        if not workspace.is_dir():
            raise InputError(f"The workspace {workspace} does not exist.", remedy="Name another with --cwd.")
        self.workspace = workspace
        self.objects: Objects = open_objects(data)
        self.pending = PendingFile(data / FOLDER, str(workspace))
        self._scanner = Scanner(str(workspace), self.objects, rules_of(settings))
        self._wall_ms = wall_ms

    def close(self) -> None:
        self.objects.close()

    def save(self) -> bytes:
        """The workspace as it is now."""
        return self._scanner.save(self._wall_ms() * 1_000_000).tree

    def undo(self, conversation: str, facts: Sequence[Recorded], seq: Seq | None, only: Sequence[str]) -> Undo:
        """What taking back would do: everything after `seq`, or the last step that changed something. Nothing is
        changed by asking."""
        now = self.save()
        steps: list[Doing] = []
        for doing in reversed(doings(facts)):
            if seq is not None and doing.began <= seq:
                break
            steps.append(doing)
            if seq is None and self._touches(doing, now, only):
                break
        if not any(self._touches(doing, now, only) for doing in steps):
            where = f"after {conversation}:{seq}" if seq is not None else f"in {conversation}"
            what = " or ".join(only) or f"a file of {self.workspace} that was saved"
            raise InputError(
                f"No step {where} has changed {what}.",
                remedy=f"See turnwright show {conversation}; a step is there only if versions were on when it ran.",
            )
        made = plan(now, [stretch_of(step, now) for step in steps], self.objects, only)
        back_to = consistent_cut(facts, steps[-1].began - 1) if seq is None else seq
        return Undo(plan=made, steps=tuple(steps), back_to=back_to, left=now.hex())

    def _touches(self, doing: Doing, now: bytes, only: Sequence[str]) -> bool:
        if (doing.after or now.hex()) == doing.before:
            return False
        return not only or bool(plan(now, [stretch_of(doing, now)], self.objects, only).to_be)

    def redo(self) -> tuple[Move, Plan]:
        """The last undo the other way: what it changed is changed back, whatever else was done since."""
        move = self.objects.last_move(str(self.workspace))
        if move is None:
            raise InputError(f"Nothing was undone in {self.workspace}.", remedy="See turnwright undo --help.")
        return move, plan(self.save(), [Stretch(move.left, move.reached)], self.objects)

    def carry_out(self, pending: Pending) -> None:
        """What cannot be done to its end is taken back; where that fails too, it stays to be finished."""
        self.pending.write(pending)
        with self.objects.saving():  # nobody lets go of the versions that it needs
            try:
                carry_out(str(self.workspace), pending.plan, self.objects, pending.mark)
            except (OSError, TurnwrightError) as failed:
                if self._as_before(pending):
                    raise MachineError(
                        f"{self.workspace} cannot be put back, and is as it was: {_why(failed)}.",
                        remedy="Mend that, and try again.",
                    ) from failed
                raise MachineError(
                    f"{self.workspace} is put back only in part: {_why(failed)}.",
                    remedy="Mend that and finish with turnwright undo, or leave it so with turnwright undo --forget.",
                ) from failed

    def _as_before(self, pending: Pending) -> bool:
        try:
            carry_out(str(self.workspace), backwards(pending.plan), self.objects, pending.mark)
        except (OSError, TurnwrightError):
            return False
        self.pending.remove()
        return True

    def changed_since(self, pending: Pending) -> tuple[str, ...]:
        return changed_since(self.save(), pending.plan, self.objects)

    def remember(self, pending: Pending) -> None:
        """Once, however often it is finished."""
        workspace, reached = str(self.workspace), self.save()
        last = self.objects.last_move(workspace)
        with self.objects.writing():
            if pending.redo and last == pending.move:
                self.objects.pop_move(workspace)
            elif not pending.redo and (last is None or last.mark != pending.mark):
                self.objects.push_move(workspace, msgspec.structs.replace(pending.move, reached=reached))


def stretch_of(step: Doing, now: bytes) -> Stretch:
    return Stretch(bytes.fromhex(step.before), bytes.fromhex(step.after) if step.after is not None else now)


def _why(failed: Exception) -> str:
    if isinstance(failed, OSError):
        return f"{failed.filename}: {failed.strerror}" if failed.filename else str(failed.strerror)
    return str(failed).rstrip(".")
