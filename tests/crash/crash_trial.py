"""One trial: run, die at a point, look at what is left, carry on, judge. And many of them, in all the time there is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar, get_args

from crash_fork import tried_fork
from crash_judge import Fault, Seen, faults
from crash_place import Place, is_sent, make_journal, make_old, only_of_old, printed, printed_lines
from crash_points import (
    TOPICS,
    Forking,
    Moment,
    Phase,
    Point,
    Syscall,
    fork_moments,
    making_points,
    migration_points,
    moments,
    run_points,
    traced,
)
from crash_result import Trial
from crash_task import Landings, Scene, effect_counts

from turnwright.journal.records import Report
from turnwright.journal.verify import verify
from turnwright.machine.warden import descendants
from turnwright.schema.facts import AttemptEnded, AttemptStarted, Recorded, ToolEnded, ToolStarted, TurnEnded

AnyPoint = TypeVar("AnyPoint", Moment, Syscall, Forking, Point)

GONE_AFTER_S = 1.0
"""W5: no process is left that long after a death."""
SUBREAPER = 36  # prctl


@dataclass(frozen=True)
class Left:
    """What a death left behind."""

    facts: list[Recorded]
    conversations: tuple[str, ...]
    effects: dict[str, int]
    verified: Report | None
    subagents: dict[str, list[Recorded]]


def tried(point: Point, root: str) -> Trial:
    """In a process of its own that takes in orphans."""
    place = Place(Path(root) / f"worker-{os.getpid()}")
    if isinstance(point, Forking):
        return tried_fork(point, place)
    landed = _prepare(point, place)
    landings = Landings(place.workspace, landed)
    try:
        return _tried(point, place, landings)
    finally:
        landings.close()


def _prepare(point: Moment | Syscall, place: Place) -> Counter[str]:
    """How often files had been put in place before."""
    match point:
        case Moment(seed=seed, scene=scene):
            place.lay_out(asks=True, journal=_empty_journal(place.root), scene=scene, seed=seed)
        case Syscall(phase="first"):
            place.lay_out()
        case Syscall(phase="resume"):
            return lay_out_a_death(place)
        case Syscall(phase="migrate"):
            return lay_out_an_old_death(place)
        case Syscall():
            place.lay_out(journal=_empty_journal(place.root))
    return Counter()


def lay_out_a_death(place: Place) -> Counter[str]:
    """Where a run has died: a command had its effect, and its end is not on record. The same death every time."""
    saved, landed = _first_death(place.root)
    shutil.rmtree(place.root, ignore_errors=True)
    shutil.copytree(saved, place.root)
    return Counter(landed)


def lay_out_an_old_death(place: Place) -> Counter[str]:
    """The same, in a journal as the first version of the schema had it."""
    landed = lay_out_a_death(place)
    make_old(place.journal)
    return landed


@cache
def _first_death(root: Path) -> tuple[Path, Counter[str]]:
    place = Place(root)
    journal = _empty_journal(root)
    place.lay_out(asks=True, journal=journal)
    landings = Landings(place.workspace)
    code, _ = place.finish(place.driver("run", "after run bash", "5"))
    assert code == -signal.SIGKILL, f"the driver should have died, and exited with {code}"
    assert not wait_until_alone(), "a process was left"
    landed = landings.counted()
    landings.close()
    place.out.rename(place.out_before)
    saved = root.with_name(f"{root.name}-died")
    shutil.copytree(root, saved)
    return saved, landed


@cache
def _empty_journal(root: Path) -> Path:
    folder = root.with_name(f"{root.name}-journal")
    make_journal(folder)
    return folder


def _tried(point: Moment | Syscall, place: Place, landings: Landings) -> Trial:
    code, _ = place.finish(_deadly(point, place))
    if code != -signal.SIGKILL:
        wait_until_alone()
        wrong = () if code == 0 else (Fault("unfinished", f"it was not killed, and exited with {code}"),)
        return Trial(point, died=False, faults=wrong)
    alive: tuple[str, ...] = ()
    if not _hasty(point):
        alive = wait_until_alone()
    left = _look(place, landings)
    code, resumed_s = place.finish(_carrying_on(point, place, left), place.out_after)
    alive += wait_until_alone()
    found = place.conversations()
    sent = {name: facts for name, facts in found.items() if is_sent(facts)}
    finally_ = {name: facts for name, facts in found.items() if name not in sent}
    seen = Seen(
        printed=[line for out in (place.out_before, place.out) for line in printed_lines(out) if b'"seq":' in line],
        at_death=left.facts,
        effects_at_death=left.effects,
        verified_at_death=left.verified,
        code=code,
        last_line=(printed_lines(place.out_after) or [b""])[-1],
        finally_=next(iter(finally_.values()), []),
        conversations=len(finally_),
        effects=effect_counts(place.effects, landings.counted()),
        verified=verify(place.journal),
        alive=alive,
        acknowledged=printed(place.acknowledged),
        subagents_at_death=left.subagents,
        subagents=sent,
    )
    return Trial(
        point,
        died=True,
        found=_found(left.facts),
        faults=tuple(faults(seen)),
        resumed_s=resumed_s,
        temporary_files=len(list(place.workspace.glob(".turnwright-*.tmp"))),
    )


def _deadly(point: Moment | Syscall, place: Place) -> list[str]:
    match point:
        case Moment():
            return place.driver("run", *point.words)
        case Syscall(phase="resume" | "migrate"):
            return point.command(place, place.resume(only_of_old(place.journal)))
        case Syscall(phase="quiet"):
            return point.command(place, place.run("json"))
        case Syscall():
            return point.command(place, place.run())


def _carrying_on(point: Moment | Syscall, place: Place, left: Left) -> list[str]:
    """Where nothing was begun yet the user gives the task again. At named moments all is done by the driver, because
    somebody must answer what the task asks there; a turn that has ended asks nothing more."""
    asks = isinstance(point, Moment) and not (left.facts and isinstance(left.facts[-1].fact, TurnEnded))
    if asks:
        talk = ["", "0", *point.words[2:]] if isinstance(point, Moment) and point.seed else []
        return place.driver("resume" if left.conversations else "run", *talk)
    return place.resume(left.conversations[0]) if left.conversations else place.run()


def _hasty(point: Moment | Syscall) -> bool:
    """Half of the trials carry on at once, while what the dead one started may still be ending."""
    return (point.nth if isinstance(point, Moment) else point.when) % 2 == 0


def _look(place: Place, landings: Landings) -> Left:
    """At a copy: what is carried on must be exactly what was left."""
    death = place.root / "death"
    if not place.journal.exists():
        return Left([], (), effect_counts(place.effects, landings.counted()), None, {})
    shutil.copytree(place.journal, death)
    effects = effect_counts(place.effects, landings.counted())
    report = verify(death)
    held = {each: facts for each, facts in place.conversations(death).items() if facts}
    sent = {each: facts for each, facts in held.items() if is_sent(facts)}
    return Left(next(iter(held.values()), []), tuple(held), effects, report, sent)


def _found(facts: Sequence[Recorded]) -> str:
    if not facts:
        return "nothing begun"
    if isinstance(facts[-1].fact, TurnEnded):
        return "turn ended"
    ended = {each.fact.call_id for each in facts if isinstance(each.fact, ToolEnded)}
    cut = [each.fact for each in facts if isinstance(each.fact, ToolStarted) and each.fact.call_id not in ended]
    if any(call.idempotency == "once" for call in cut):
        return "call cut off"
    if cut:
        return "read cut off"
    kinds = Counter(type(each.fact) for each in facts)
    return "attempt cut off" if kinds[AttemptStarted] > kinds[AttemptEnded] else "between acts"


def wait_until_alone() -> tuple[str, ...]:
    """Wait for our children to end: the command lines of those that do not, which are then killed."""
    end = time.monotonic() + GONE_AFTER_S
    while _children_left():
        if time.monotonic() > end:
            return tuple(_kill_all())
        time.sleep(0.005)
    return ()


def _children_left() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill_all() -> Iterator[str]:
    while left := descendants({os.getpid()}):
        for pid in left:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        _children_left()


# Many trials


class Workers:
    """Processes that try points. Each takes in the orphans of its own trials."""

    def __init__(self, root: Path, jobs: int) -> None:
        self._root = str(root)
        self._jobs = jobs
        self._pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=take_in_orphans)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def moments(self, seed: int = 0) -> list[Moment]:
        """All there are, by a whole run that nobody kills; with a seed, those of what the user says."""
        return self._pool.submit(_moments, self._root, seed).result()

    def scene(self, scene: Scene, seed: int) -> list[Moment]:
        """Some of those of a scene."""
        return self._pool.submit(_moments, self._root, seed, scene).result()

    def forks(self, seed: int) -> list[Forking]:
        return self._pool.submit(_forks, self._root, seed).result()

    def seeded(self, seeds: Iterable[int], wanted: Callable[[str], bool]) -> list[Point]:
        """For each seed what the user says, the scenes and a fork, as far as they are wanted."""
        found: list[Future[list[Moment]] | Future[list[Forking]]] = []
        for seed in seeds:
            scenes = [scene for scene in get_args(Scene) if wanted(f"scene: {scene}" if scene else f"talk: {TOPICS}")]
            found += [self._pool.submit(_moments, self._root, seed, scene) for scene in scenes]
            if wanted("fork"):
                found.append(self._pool.submit(_forks, self._root, seed))
        return [point for each in found for point in each.result()]

    def system_calls(self, *phases: Phase) -> list[Syscall]:
        """The same for writing system calls. `run` brings those of `quiet` with it."""
        found = [self._pool.submit(_system_calls, self._root, phase) for phase in phases]
        return [point for each in found for point in each.result()]

    def try_all(self, points: Sequence[Point], *, until: float | None = None, at_least: int = 0) -> Iterator[Trial]:
        """As they finish. `until`: beyond `at_least`, no trial is begun after that time (monotonic)."""
        waiting = iter(points)
        running: set[Future[Trial]] = set()
        begun = 0
        while True:
            while len(running) < self._jobs and (until is None or begun < at_least or time.monotonic() < until):
                if (point := next(waiting, None)) is None:
                    break
                begun += 1
                running.add(self._pool.submit(tried, point, self._root))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)


def take_in_orphans() -> None:
    """What a dead runtime leaves becomes our child, so that we see exactly what lives on."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def _moments(root: str, seed: int, scene: Scene = "") -> list[Moment]:
    place = Place(Path(root) / f"worker-{os.getpid()}")
    place.lay_out(asks=True, journal=_empty_journal(place.root), scene=scene, seed=seed)
    return moments(place, seed, scene)


def _forks(root: str, seed: int) -> list[Forking]:
    place = Place(Path(root) / f"worker-{os.getpid()}")
    lay_out_a_death(place)
    return fork_moments(place, seed)


def _system_calls(root: str, phase: Phase) -> list[Syscall]:
    place = Place(Path(root) / f"worker-{os.getpid()}")
    match phase:
        case "first":
            place.lay_out()
            return making_points(traced(place, place.run()))
        case "resume":
            lay_out_a_death(place)
            (conversation_id,) = place.conversations()
            return run_points(traced(place, place.resume(conversation_id)), "resume")
        case "migrate":
            lay_out_an_old_death(place)
            return migration_points(traced(place, place.resume(only_of_old(place.journal))))
        case _:
            place.lay_out(journal=_empty_journal(place.root))
            return run_points(traced(place, place.run()), "run")


def spread(points: Sequence[AnyPoint]) -> list[AnyPoint]:
    """All of them, in an order of which every beginning is spread evenly over the whole."""
    step = max(1, round(len(points) * 0.618))
    while _common(step, len(points)) > 1:
        step += 1
    return [points[index * step % len(points)] for index in range(len(points))]


def _common(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one
