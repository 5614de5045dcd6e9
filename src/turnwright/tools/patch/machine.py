"""A patch applied through the machine, all or nothing: what the `patch` tool does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from turnwright.machine.port import Absent, Machine, Unchanged, Written
from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import Detail, ToolOutcome
from turnwright.tools.context import FilesRead, ToolContext
from turnwright.tools.files import answering, known_as
from turnwright.tools.patch.formats import Format, detect, parse
from turnwright.tools.patch.operations import Change, Missing, Obstacle, State, TextFile
from turnwright.tools.text import Binary, decode, encode

DETAILED_FILES_MAX = 50


async def apply_to_machine(ctx: ToolContext, text: str, form: Format | None, path: str) -> ToolOutcome:
    """`form` is found out where it is None; `path` is for a format that names no file."""
    known = form or detect(text)
    parsed = parse(known, text, path=path)
    files = MachineFiles(ctx.machine)
    states = {name: await files.load(name) for name in parsed.paths}
    plan = await asyncio.to_thread(parsed.plan, states)
    for change in plan.changes:
        _check_known(change, files, ctx)
    detail = await files.commit(plan.changes, ctx.files)
    return ToolOutcome(output="\n".join(plan.report), detail={"files": len(plan.changes), "format": known, **detail})


class MachineFiles:
    """The files a patch touches: what they were, and how they become what they are to be."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._before: dict[str, bytes] = {}
        self.sha256: dict[str, str] = {}

    async def load(self, path: str) -> State:
        with answering(path):
            try:
                content = await self._machine.read(path)
            except FileNotFoundError:
                return Missing()
            except IsADirectoryError:
                return Obstacle("a directory")
            except NotADirectoryError:
                return Obstacle("beneath a file, not a folder")
        if content.sha256 is None:
            return Obstacle("too large to patch")
        self._before[path], self.sha256[path] = content.data, content.sha256
        match decode(content.data):
            case Binary(kind=kind):
                return Obstacle(kind, removable=True)
            case decoded:
                return TextFile(decoded.text, decoded.encoding, content.stat.mode)

    async def commit(self, changes: Sequence[Change], seen: FilesRead) -> Detail:
        """Writes come first, so that most failures find nothing removed. A failure, or a cancellation, undoes them."""
        ordered = sorted(changes, key=lambda change: isinstance(change.after, Missing))
        encoded = {
            change.path: encode(change.after.text, change.after.encoding, change.path)
            for change in ordered
            if isinstance(change.after, TextFile)
        }
        done: list[tuple[Change, Written | None]] = []
        try:
            for change in ordered:
                with answering(change.path):
                    done.append((change, await self._make(change, encoded)))
        except asyncio.CancelledError:
            # The one in flight may have been made all the same: the machine does not stop in the middle of a rename.
            await self._undo([*done, *((change, None) for change in ordered[len(done) : len(done) + 1])])
            raise
        except BaseException as fault:
            await self._undo(done)
            if isinstance(fault, ToolFailure):
                raise ToolFailure(f"{fault} Nothing was changed.") from fault
            raise
        detail: Detail = {}
        for change, written in done:
            self._remember(change, written, seen)
            if len(done) <= DETAILED_FILES_MAX:
                detail[f"sha256_before:{change.path}"] = self.sha256.get(change.path)
                detail[f"sha256_after:{change.path}"] = None if written is None else written.sha256
        return detail

    async def _make(self, change: Change, encoded: dict[str, bytes]) -> Written | None:
        match change.after:
            case Missing():
                await self._machine.remove(change.path)
                return None
            case TextFile(mode=mode):
                only_if = Unchanged(self.sha256[change.path]) if change.path in self.sha256 else Absent()
                return await self._machine.write(change.path, encoded[change.path], only_if=only_if, mode=mode)

    async def _undo(self, done: Sequence[tuple[Change, Written | None]]) -> None:
        for change, written in reversed(done):
            if change.path in self._before:
                mode = change.before.mode if isinstance(change.before, TextFile) else None
                await self._machine.write(change.path, self._before[change.path], mode=mode)
                continue
            with contextlib.suppress(FileNotFoundError):
                await self._machine.remove(change.path)
            for folder in reversed(written.folders_made if written is not None else ()):
                await self._machine.remove(folder)

    def _remember(self, change: Change, written: Written | None, seen: FilesRead) -> None:
        """What the model knew whole, it still does; what it saw a piece of, it does not know."""
        name = known_as(self._machine, change.path)
        known = change.path not in self.sha256 or seen.seen.get(name) == self.sha256[change.path] or change.blind
        seen.seen.pop(name, None)
        if written is not None and known:
            seen.seen[name] = written.sha256


def _check_known(change: Change, files: MachineFiles, ctx: ToolContext) -> None:
    """Context lines prove that the model knows what it changes; to overwrite a file whole it must have read it."""
    if not change.blind or isinstance(change.after, Missing):
        return
    seen = ctx.files.seen.get(known_as(ctx.machine, change.path))
    if seen != files.sha256[change.path]:
        why = "has not been read yet" if seen is None else "has changed since you read it"
        raise ToolFailure(f"{change.path} would be overwritten, and {why}.", remedy="Read it first, or update it.")
