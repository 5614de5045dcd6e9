"""The judge of the crash table can say no: each kind of fault is seen when it is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from crash_judge import Kind, Seen, faults
from crash_place import Place, printed_lines
from crash_task import EFFECTS, Landings, effect_counts

from turnwright.journal.records import Finding
from turnwright.journal.verify import verify
from turnwright.schema.facts import Recorded, ToolEnded, ToolStarted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="notices of files are watched as on Linux")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """As if a run had died right after its first command, and been carried on without a fault."""
    place = Place(tmp_path_factory.mktemp("judge") / "place")
    place.lay_out()
    landings = Landings(place.workspace)
    code, _ = place.finish(place.run())
    ((_, facts),) = place.conversations().items()
    effects = effect_counts(place.effects, landings.counted())
    landings.close()
    lines = printed_lines(place.out)
    (ended,) = [each.seq for each in facts if isinstance(each.fact, ToolEnded) and each.fact.call_id == "S1"]
    return Seen(
        printed=[line for line in lines if b'"seq":' in line][:ended],
        at_death=facts[:ended],
        effects_at_death=dict.fromkeys(EFFECTS, 0) | {"S1": 1},
        verified_at_death=verify(place.journal),
        code=code,
        last_line=lines[-1],
        finally_=facts,
        conversations=1,
        effects=effects,
        verified=verify(place.journal),
    )


def kinds(seen: Seen) -> set[Kind]:
    return {fault.kind for fault in faults(seen)}


def test_what_is_sound_has_no_fault(sound: Seen) -> None:
    assert list(faults(sound)) == []


def without(seen: Seen, call_id: str, kind: type[ToolStarted | ToolEnded]) -> list[Recorded]:
    return [each for each in seen.at_death if not (isinstance(each.fact, kind) and each.fact.call_id == call_id)]


def told(seen: Seen, **acknowledged: str) -> Seen:
    """The user was told of something that is not on record."""
    return replace(seen, acknowledged=[acknowledged])


FAULTY: dict[str, tuple[Kind, Callable[[Seen], Seen]]] = {
    "a printed line differs": ("lost", lambda seen: replace(seen, printed=[seen.printed[3].replace(b"t_", b"u_")])),
    "a durable fact is gone": ("lost", lambda seen: replace(seen, finally_=seen.finally_[:4] + seen.finally_[5:])),
    "a command was done and is not": ("lost", lambda seen: replace(seen, effects=seen.effects | {"S4": 0})),
    "an effect before its start": ("lost", lambda seen: replace(seen, at_death=without(seen, "S1", ToolStarted))),
    "a command twice": ("doubled", lambda seen: replace(seen, effects=seen.effects | {"S1": 2})),
    "a write twice": ("doubled", lambda seen: replace(seen, effects=seen.effects | {"W1": 2})),
    "a call started twice": ("doubled", lambda seen: replace(seen, finally_=seen.finally_ + seen.at_death)),
    "another exit code": ("unfinished", lambda seen: replace(seen, code=1)),
    "another reason": ("unfinished", lambda seen: replace(seen, last_line=b'{"type":"result","reason":"length"}')),
    "two conversations": ("unfinished", lambda seen: replace(seen, conversations=2)),
    "an end that nobody knew of": ("untold", lambda seen: replace(seen, at_death=without(seen, "S1", ToolEnded))),
    "a letter that was acknowledged": ("lost", lambda seen: told(seen, request="steer", inbox_id="m_1")),
    "a letter that was taken back": (
        "lost",
        lambda seen: told(seen, request="withdraw", inbox_id="m_1", state="withdrawn"),
    ),
    "an answer": ("lost", lambda seen: told(seen, request="answer", approval_id="a_1", answer="yes")),
    "a process": ("left", lambda seen: replace(seen, alive=("sleep 600",))),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_seen(sound: Seen, name: str) -> None:
    kind, spoiled = FAULTY[name]
    assert kind in kinds(spoiled(sound))


def test_damage_is_seen(sound: Seen) -> None:
    assert sound.verified is not None
    finding = Finding(place="page", message="page 3 is not what was written")
    damaged = type(sound.verified)(folder="", findings=(finding,))
    assert kinds(replace(sound, verified=damaged)) == {"damaged"}
    assert kinds(replace(sound, verified_at_death=damaged)) == {"damaged"}
