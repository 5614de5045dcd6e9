"""Shell commands: run to their end, or in the background with `bash_output` and `bash_kill`."""

from __future__ import annotations

import asyncio
import codecs
import errno
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar, assert_never

from msgspec import Meta

from turnwright.machine.port import Captured, Command, Finished, Keep, Machine, Process, Stream, run
from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import Detail, ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool
from turnwright.tools.shorten import LINES_MAX, plain, shorten

TIMEOUT_S = 120
TIMEOUT_S_MAX = 600
JOBS_MAX = 16

# A little under the registry's limits, so that what is said after the output never makes the whole be cut again.
_SHOWN_BYTES = 49_000
_SHOWN_LINES = LINES_MAX - 10
_HALF_BYTES = _SHOWN_BYTES // 2
_KEEP = Keep(head_bytes=50_000, tail_bytes=50_000, lines=LINES_MAX, spill=True)

_LIVE_BYTES_MAX = 16 * 1024
_LIVE_WINDOW_S = 0.1

Started = TypeVar("Started")

Seconds = Annotated[int, Meta(ge=1, le=TIMEOUT_S_MAX)]


@tool(effect="runs")
async def bash(
    ctx: ToolContext, command: str, timeout_s: Seconds = TIMEOUT_S, background: bool = False, description: str = ""
) -> ToolOutcome:
    """Run a shell command in the workspace folder and return what it wrote (stdout and stderr together).

    What confines it is said in the system prompt.
    Every call starts afresh in the workspace folder: a `cd` or an exported variable does not last, so join with `&&`.
    Nothing can be typed in: stdin is empty. Long output is shortened, and the whole is kept in a file you can read.
    When the command ends, processes that it left running are killed. For a server or a watcher use background.

    Args:
        command: What to run, as given to `bash -c`.
        timeout_s: When to kill it, in seconds; ask for more where a build or a test suite needs it.
        background: Return at once and let it run; see bash_output and bash_kill. timeout_s does not apply.
        description: What the command is for, in five to ten words, for the user who watches.
    """
    if "\0" in command:
        raise ToolFailure("The command contains a NUL character.")
    if background:
        return await _run_in_background(ctx, command)
    live = _Live(ctx.output)
    try:
        finished = await _with_shell(
            command, lambda argv: run(ctx.machine, Command(argv=argv, timeout_s=timeout_s, keep=_KEEP), live.feed)
        )
    finally:
        live.close()
    return _outcome(finished, ctx.machine, timeout_s)


@tool(effect="reads")
async def bash_output(ctx: ToolContext, id: str) -> ToolOutcome:  # noqa: A002 - the name that models know
    """What a background command wrote since you last looked, and whether it still runs.

    Args:
        id: As `bash` returned it.
    """
    job = ctx.state(Jobs).get(id)
    captured, _ = job.process.output()
    shown, shortened = show(captured, job.read_bytes)
    new_bytes = captured.size - job.read_bytes
    job.read_bytes = captured.size
    detail: Detail = {"running": job.process.finished is None}
    if job.process.finished is None:
        notes = ["[still running]"]
    else:
        notes = _notes(job.process.finished, None) or ["[ended with exit code 0]"]
        detail |= _detail(job.process.finished, ctx.machine)
    return ToolOutcome(
        output=_joined(shown or "(nothing new)", notes),
        original_bytes=new_bytes if shortened else None,
        detail=detail,
    )


@tool(effect="runs")
async def bash_kill(ctx: ToolContext, id: str) -> ToolOutcome:  # noqa: A002 - the name that models know
    """Kill a background command and everything it started.

    Args:
        id: As `bash` returned it.
    """
    job = ctx.state(Jobs).get(id)
    if job.process.finished is not None:
        said = f"{id} had already ended, with exit code {job.process.finished.exit_code}."
        return ToolOutcome(output=said, detail=_detail(job.process.finished, ctx.machine))
    finished = await job.process.stop()
    said = f"{id} and what it started was killed."
    if finished.unkillable:
        said = f"{id} was told to end, but something it started cannot be killed and still runs."
    return ToolOutcome(output=said, detail=_detail(finished, ctx.machine))


@dataclass(slots=True)
class Job:
    """A background command. `read_bytes` is how much of its output the model has been given."""

    process: Process
    read_bytes: int = 0


@dataclass(slots=True)
class Jobs:
    """The background commands of a conversation. They end with it."""

    jobs: dict[str, Job] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, process: Process) -> str:
        name = f"bg{next(self.numbers)}"
        self.jobs[name] = Job(process)
        return name

    def get(self, name: str) -> Job:
        if name not in self.jobs:
            raise ToolFailure(f"No background command {name!r}; there are: {', '.join(self.jobs) or 'none'}.")
        return self.jobs[name]

    def running(self) -> list[str]:
        return [name for name, job in self.jobs.items() if job.process.finished is None]

    async def close(self) -> None:
        await asyncio.gather(*(job.process.stop() for job in self.jobs.values()))


async def _run_in_background(ctx: ToolContext, command: str) -> ToolOutcome:
    jobs = ctx.state(Jobs)
    running = jobs.running()
    if len(running) >= JOBS_MAX:
        raise ToolFailure(f"{JOBS_MAX} background commands run already ({', '.join(running)}); kill one first.")
    process = await _with_shell(command, lambda argv: ctx.machine.spawn(Command(argv=argv, keep=_KEEP)))
    name = jobs.add(process)
    said = f"Runs in the background as {name}. Read it with bash_output, end it with bash_kill."
    return ToolOutcome(output=said, detail={"id": name, "pid": process.pid, "sandbox": ctx.machine.confinement.tier})


async def _with_shell(command: str, start: Callable[[tuple[str, ...]], Awaitable[Started]]) -> Started:
    """With bash, or with sh where there is no bash."""
    for shell in ("bash", "sh"):
        try:
            return await start((shell, "-c", command))
        except OSError as failed:
            if failed.filename == shell and failed.errno == errno.ENOENT and shell == "bash":
                continue
            remedy = "Write it to a file and run that." if failed.errno == errno.E2BIG else ""
            raise ToolFailure(f"{failed.filename} could not be started: {failed.strerror}.", remedy=remedy) from failed
    raise AssertionError("the last shell either starts or raises")


def _outcome(finished: Finished, machine: Machine, timeout_s: int) -> ToolOutcome:
    shown, shortened = show(finished.stdout)
    notes = _notes(finished, timeout_s)
    outcome: Literal["ok", "failed", "timeout"] = "ok"
    if finished.how == "timeout":
        outcome = "timeout"
    elif finished.how != "exited" or finished.exit_code != 0:
        outcome = "failed"
    return ToolOutcome(
        output=_joined(shown or "(no output)", notes),
        outcome=outcome,
        original_bytes=finished.stdout.size if shortened else None,
        detail=_detail(finished, machine),
    )


def _notes(finished: Finished, timeout_s: int | None) -> list[str]:
    """What there is to say beside the output, in the runtime's own words."""
    notes = []
    match finished.how:
        case "timeout":
            notes.append(
                f"[timed out after {timeout_s} s: the command and all it started were killed; "
                f"ask for more (timeout_s, at most {TIMEOUT_S_MAX}) or run it in the background]"
            )
        case "stopped":
            notes.append("[killed]")
        case "lost":
            notes.append("[outcome unknown: whatever watched over the command was killed; look before you repeat it]")
        case "exited" if finished.exit_code > 128:
            notes.append(f"[exit code {finished.exit_code}: ended by signal {finished.exit_code - 128}]")
        case "exited" if finished.exit_code != 0:
            notes.append(f"[exit code {finished.exit_code}]")
        case "exited":
            pass
        case _:
            assert_never(finished.how)
    if finished.left_behind:
        notes.append(
            f"[{finished.left_behind} process(es) that it left running were killed; "
            "use background for what should live on]"
        )
    if finished.unkillable:
        notes.append("[something that it started cannot be killed and still runs]")
    return notes


def _detail(finished: Finished, machine: Machine) -> Detail:
    detail: Detail = {"exit_code": finished.exit_code, "sandbox": machine.confinement.tier}
    if finished.stdout.spilled_to is not None:
        detail["output_path"] = finished.stdout.spilled_to
    return detail


def show(captured: Captured, since: int = 0) -> tuple[str, bool]:
    """What a model reads of the output from byte `since` on, and whether that was shortened."""
    tail_start = captured.size - len(captured.tail)
    head = captured.head[since:]
    tail = captured.tail[max(0, since - tail_start) :]
    missing = tail_start - max(since, len(captured.head))
    if missing <= 0:
        text = plain((head + tail).decode("utf-8", "replace"))
        short = shorten(text, bytes_max=_SHOWN_BYTES, lines_max=_SHOWN_LINES)
        if short.original_bytes is None:
            return text, False
        return _joined(short.text, [_whereabouts(captured)]), True
    first, last = _first_part(head), _last_part(tail)
    left_out = captured.size - since - len(first.encode()) - len(last.encode())
    notice = f"[... about {left_out:,} of {captured.size - since:,} bytes left out ...]"
    return _joined(first, [notice, last, _whereabouts(captured)]), True


def _first_part(head: bytes) -> str:
    text = plain(head.decode("utf-8", "replace")).encode()[:_HALF_BYTES].decode("utf-8", "ignore")
    return "".join(text.splitlines(keepends=True)[: _SHOWN_LINES // 2])


def _last_part(tail: bytes) -> str:
    text = plain(tail.decode("utf-8", "replace")).encode()[-_HALF_BYTES:].decode("utf-8", "ignore")
    return "".join(text.splitlines(keepends=True)[-(_SHOWN_LINES // 2) :])


def _whereabouts(captured: Captured) -> str:
    if captured.spilled_to is None:
        return f"[the rest was not kept: {captured.spill_fault}]" if captured.spill_fault else "[the rest was not kept]"
    if captured.spilled_bytes >= captured.size:
        return f"[all {captured.size:,} bytes are in {captured.spilled_to}]"
    why = f" ({captured.spill_fault})" if captured.spill_fault else ""
    return f"[the first {captured.spilled_bytes:,} of {captured.size:,} bytes are in {captured.spilled_to}{why}]"


def _joined(text: str, notes: list[str]) -> str:
    """Each on lines of its own."""
    parts = [text.removesuffix("\n"), *(note.removesuffix("\n") for note in notes)]
    return "\n".join(part for part in parts if part)


class _Live:
    """Output as it comes, for those who watch: plain text, and no more than anyone can look at."""

    def __init__(self, show_text: Callable[[str, Stream], None]) -> None:
        self._show = show_text
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._room = _LIVE_BYTES_MAX
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, piece: bytes, stream: Stream) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LIVE_WINDOW_S, self._open_window)
        shown = piece[: self._room]
        self._room -= len(shown)
        self._dropped += len(piece) - len(shown)
        text = plain(self._decode(shown)) if shown else ""
        if text:
            self._show(text, stream)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._tell_dropped()

    def _open_window(self) -> None:
        self._timer = None
        self._room = _LIVE_BYTES_MAX
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._show(f"\n[... {self._dropped:,} bytes not shown ...]\n", "stdout")
            self._dropped = 0
