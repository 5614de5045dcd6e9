"""The points at which the runtime is killed: system calls by strace, named moments by the driver.

strace counts each system call by itself and in each thread by itself, and kills before the call is carried out. With a
path it counts only calls on that file, so the threads do not get in each other's way: the journal's files are written
by its writer alone, the output by the main thread. What remains is counted over all files; there the thread that first
gets that far is the one that dies, and the trace of a whole run tells which call that is.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from crash_place import JOURNAL_FILES, Place
from crash_task import Scene

WRITING = (
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "copy_file_range", "fallocate"),
    *("fsync", "fdatasync", "ftruncate", "truncate", "rename", "renameat", "renameat2", "link", "linkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "chmod", "fchmod"),
)
"""What changes a disk, or says something to another process."""

FOLLOW = ("strace", "-f", "-qq", "-b", "execve", "-e", "signal=none")
"""Threads, but no other program: the keeper of commands and the commands themselves are left alone."""

Phase: TypeAlias = Literal["first", "run", "quiet", "resume", "migrate"]
"""`first` makes the journal too; `quiet` prints only the result, so that the main thread writes little; `resume` is
killed while it recovers from a first death, and `migrate` while it does so in a journal of the first schema."""
MIGRATING = 20
"""So many of the first calls on each file of the journal."""


@dataclass(frozen=True)
class Syscall:
    """Before the `when`th call of that name: on `file`, or on any where it is empty."""

    phase: Phase
    name: str
    file: str
    when: int
    victim: str = ""
    """What the call was about to touch."""

    @property
    def group(self) -> str:
        return f"{self.phase}: {self.file or 'anything else'}"

    def __str__(self) -> str:
        return f"{self.phase}: {self.name} #{self.when} on {self.file or self.victim}"

    def command(self, place: Place, command: Sequence[str]) -> list[str]:
        only = ["-P", str(place.path_of(self.file))] if self.file else []
        inject = f"inject={self.name}:signal=KILL:when={self.when}"
        return [*FOLLOW, "-o", "/dev/null", *only, "-e", f"trace={self.name}", "-e", inject, *command]


@dataclass(frozen=True)
class Moment:
    """The `nth` moment of that name that the driver passes: before and after facts, tools and attempts."""

    name: str
    nth: int
    seed: int = 0
    """What the user says meanwhile, and when; see `crash_talk`. 0: what is said in every run."""
    scene: Scene = ""
    """What else happens in the task, at a place that `seed` says."""

    @property
    def group(self) -> str:
        if self.scene:
            return f"scene: {self.scene}"
        if self.seed:
            return f"talk: {self.topic}"
        return f"moments: {self.name.split()[0]} {self.name.split()[1]}"

    @property
    def topic(self) -> str:
        """Which promise to the user is at stake; empty where none is."""
        return next((topic for topic, words in TOPICS.items() if any(word in self.name for word in words)), "")

    def __str__(self) -> str:
        return f"moment {self.name} #{self.nth}" + (f" of {self.scene or 'talk'} {self.seed}" if self.seed else "")

    @property
    def words(self) -> tuple[str, ...]:
        return (self.name, str(self.nth), str(self.seed), *([self.scene] if self.scene else []))


@dataclass(frozen=True)
class Forking:
    """A moment of a fork. `seed` says of which point of a conversation."""

    name: str
    nth: int
    seed: int

    @property
    def group(self) -> str:
        return "fork"

    def __str__(self) -> str:
        return f"fork {self.seed}: {self.name} #{self.nth}"


TOPICS = {
    "approval": ("approval.", " ask", "answer answer"),
    "steering": ("steering.", "answer steer"),
    "inbox": ("inbox.", "answer queue", "answer withdraw"),
}


Point: TypeAlias = Syscall | Moment | Forking

NEAR: dict[Scene, tuple[str, str]] = {
    "compaction": ("context.compacted", "context.compacted"),
    "subagent": ("subagent.started", "subagent.ended"),
}
"""The words of a scene's first and last moment."""
AROUND = 4
"""So many moments before the first and after the last belong to a scene."""
OF_A_SCENE = 10
"""So many moments of a scene are tried, of each seed others."""


class Line(NamedTuple):
    """One call in the trace of a whole run."""

    thread: int
    name: str
    file: str
    """One of ours by its short name, else empty."""
    target: str
    ordinal: int
    """How many calls of that name its thread had made, this one included."""
    failed: bool
    """It changed nothing."""


def traced(place: Place, command: Sequence[str]) -> list[Line]:
    """A whole run, and every writing call in it."""
    trace = place.root / "trace"
    wanted = ",".join(f"?{name}" for name in WRITING)
    code, _ = place.finish([*FOLLOW, "-yy", "-s", "256", "-o", str(trace), "-e", f"trace={wanted}", *command])
    if code != 0:
        raise AssertionError(f"the run that should be watched to its end exited with {code}: {_last_words(place)}")
    return list(_lines(trace.read_text(errors="replace"), place))


def _lines(trace: str, place: Place) -> Iterator[Line]:
    names = {str(place.path_of(file)): file for file in (*JOURNAL_FILES, "out")}
    counts: Counter[tuple[int, str]] = Counter()
    for found in re.finditer(r'^(\d+)\s+(\w+)\((?:\d+<([^>]*)>|[^"\n]*"([^"\n]*)")?(.*)$', trace, re.MULTILINE):
        thread, name, by_descriptor, by_path, rest = found.groups()
        counts[int(thread), name] += 1
        target = by_descriptor or by_path or ""
        failed = ") = -1" in rest or ")  = -1" in rest
        yield Line(int(thread), name, names.get(target, ""), target, counts[int(thread), name], failed)


def making_points(lines: Sequence[Line]) -> list[Syscall]:
    """Everything before the first fact, in a home where nothing is: the journal is being made."""
    before = list(_before_first_fact(lines))
    return [Syscall("first", line.name, "", line.ordinal, _short(line.target)) for line in _first_to_get_there(before)]


def _before_first_fact(lines: Sequence[Line]) -> Iterator[Line]:
    for line in lines:
        if line.file == "log":
            return
        yield line


def run_points(lines: Sequence[Line], phase: Phase) -> list[Syscall]:
    """Where the journal is there already: its files and the output one by one, then the rest."""
    main = next(line.thread for line in lines if line.file == "out")
    if phase == "resume":  # the run folder is written in the same way after any turn
        lines = [line for line in lines if "/runs" not in line.target]
    counts: Counter[tuple[str, str, int]] = Counter((line.file, line.name, line.thread) for line in lines if line.file)
    highest: dict[tuple[str, str], int] = {}
    for (file, name, _), count in counts.items():
        highest[file, name] = max(count, highest.get((file, name), 0))
    points = [
        Syscall(phase, name, file, when)
        for (file, name), count in sorted(highest.items())
        for when in range(1, count + 1)
    ]
    rest = (line for line in _first_to_get_there(lines) if not line.file)
    points += [Syscall(phase, line.name, "", line.ordinal, _short(line.target)) for line in rest]
    if phase == "run":
        quiet = max((line.ordinal for line in lines if line.name == "write" and line.thread != main), default=0)
        points += [Syscall("quiet", "write", "", when, "a pipe or a new file") for when in range(1, quiet + 1)]
    return points


def _first_to_get_there(lines: Sequence[Line]) -> list[Line]:
    """Of all threads the first that makes its Nth call of a name: it would die, whatever the others do later."""
    first: dict[tuple[str, int], Line] = {}
    for line in lines:
        first.setdefault((line.name, line.ordinal), line)
    return [line for line in first.values() if not line.failed]


def migration_points(lines: Sequence[Line]) -> list[Syscall]:
    """The journal is brought forward before anything else is written to it."""
    points = [point for point in run_points(lines, "resume") if point.file and point.file != "out"]
    return [Syscall("migrate", each.name, each.file, each.when) for each in points if each.when <= MIGRATING]


def _short(target: str) -> str:
    return re.sub(r"\d{3,}", "*", Path(target).name or target)


def moments(place: Place, seed: int = 0, scene: Scene = "") -> list[Moment]:
    """All that the driver passes in a whole run; with a seed, those of what the user says, or of the scene."""
    passed = _passed(place, "run", *(["", "0", str(seed)] if seed else []), *([scene] if scene else []))
    if scene:
        return _of_scene(passed, seed, scene)
    met = Counter(passed)
    found = [Moment(name, nth, seed) for name in met for nth in range(1, met[name] + 1)]
    return [each for each in found if each.topic] if seed else found


def _of_scene(passed: Sequence[str], seed: int, scene: Scene) -> list[Moment]:
    begin, end = NEAR[scene]
    first = next(n for n, name in enumerate(passed) if begin in name)
    last = max(n for n, name in enumerate(passed) if end in name)
    near = range(max(0, first - AROUND), min(len(passed), last + AROUND + 1))
    chosen = random.Random(seed).sample(near, min(OF_A_SCENE, len(near)))
    return [Moment(passed[n], passed[: n + 1].count(passed[n]), seed, scene) for n in sorted(chosen)]


def fork_moments(place: Place, seed: int) -> list[Forking]:
    passed = _passed(place, "fork", "", "0", str(seed))
    return [Forking(name, passed[: n + 1].count(name), seed) for n, name in enumerate(passed)]


def _passed(place: Place, what: str, *words: str) -> list[str]:
    code, _ = place.finish(place.driver(what, *words))
    if code != 0:
        raise AssertionError(f"the driver exited with {code}: {_last_words(place)}")
    found: list[str] = json.loads((place.root / "moments.json").read_text())
    return found


def _last_words(place: Place) -> str:
    return place.out.with_suffix(".err").read_text(errors="replace")[-2_000:]


def has_strace() -> bool:
    """Installed and allowed to trace."""
    try:
        done = subprocess.run([*FOLLOW, "-o", "/dev/null", "true"], capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0
