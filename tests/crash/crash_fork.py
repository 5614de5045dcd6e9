"""A fork that is killed, and made again: what was told holds, and what it was made from is as it was."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence

from crash_judge import Fault
from crash_place import Place, printed
from crash_points import Forking
from crash_result import Trial
from crash_task import fork_point

from turnwright.journal.verify import verify
from turnwright.schema.facts import ConversationOpened, Recorded


def tried_fork(point: Forking, place: Place) -> Trial:
    """The folder was laid out with a conversation that a death has left."""
    from crash_trial import lay_out_a_death, wait_until_alone

    lay_out_a_death(place)
    ((parent, before),) = place.conversations().items()
    code, _ = place.finish(place.driver("fork", point.name, str(point.nth), str(point.seed)))
    wait_until_alone()
    if code != -signal.SIGKILL:
        wrong = () if code == 0 else (Fault("unfinished", f"it was not killed, and exited with {code}"),)
        return Trial(point, died=False, faults=wrong)
    told = [line["conversation_id"] for line in printed(place.out)]
    death = place.root / "death"
    shutil.copytree(place.journal, death)
    left = place.conversations(death)
    seq = fork_point(point.seed, len(before))
    again = [sys.executable, "-m", "turnwright", "fork", f"{parent}:{seq}", "--json"]
    code, took_s = place.finish(again, place.out_after)
    made = printed(place.out_after)
    wait_until_alone()
    reports = [*verify(death).findings, *verify(place.journal).findings]
    found = [
        *_of_the_death(parent, before, told, left),
        *_of_the_next(parent, before, code, made, place.conversations()),
        *(Fault("damaged", f"{each.place}: {each.message}") for each in reports),
    ]
    return Trial(point, died=True, found="told" if told else "not told", faults=tuple(found), resumed_s=took_s)


def _of_the_death(
    parent: str, before: Sequence[Recorded], told: Sequence[str], left: Mapping[str, list[Recorded]]
) -> Iterator[Fault]:
    if left[parent] != before:
        yield Fault("lost", "what was forked is no longer what it was")
    for name in told:
        if name not in left:
            yield Fault("lost", f"the fork {name} was told, and is not there")
    for name, facts in left.items():
        if name != parent and not _is_fork(facts, parent, before):
            yield Fault("doubled", f"{name} looks like what it was forked from, and says nothing of its own")


def _of_the_next(
    parent: str,
    before: Sequence[Recorded],
    code: int,
    made: Sequence[Mapping[str, object]],
    now: Mapping[str, list[Recorded]],
) -> Iterator[Fault]:
    if code != 0 or len(made) != 1:
        yield Fault("unfinished", f"forking again: exit {code}, {json.dumps(made)}")
        return
    name = str(made[0]["conversation_id"])
    if name not in now or not _is_fork(now[name], parent, before):
        yield Fault("lost", f"the fork {name} does not share what it was forked from")


def _is_fork(facts: Sequence[Recorded], parent: str, before: Sequence[Recorded]) -> bool:
    opened = [each for each in facts if isinstance(each.fact, ConversationOpened)]
    fact = opened[-1].fact
    assert isinstance(fact, ConversationOpened)
    shared = fact.forked_at or 0
    same = [(each.at, each.body) for each in facts[:shared]] == [(each.at, each.body) for each in before[:shared]]
    return fact.parent == parent and bool(shared) and same
