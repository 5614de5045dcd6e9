"""`resume --continue` after whatever it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash_place import Place, environment, printed
from crash_task import EFFECTS, LAST_WORDS, Landings, effect_counts

from turnwright.app.engine import open_engine
from turnwright.app.turns import carried_on, first_turn, opening
from turnwright.config.load import Flag, load
from turnwright.journal.verify import verify
from turnwright.kernel.history import History, interrupted_text
from turnwright.schema.errors import InputError
from turnwright.schema.facts import StepStarted, ToolStarted, TurnEnded, encode_line
from turnwright.schema.messages import ToolResults

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="notices of files are watched as on Linux")


def test_a_turn_that_had_ended_gives_its_answer_again(tmp_path: Path) -> None:
    """Whoever resumes after a crash cannot know that the turn had just ended."""
    place = Place(tmp_path / "place")
    place.lay_out()
    assert place.finish(place.run())[0] == 0
    ((conversation_id, before),) = place.conversations().items()
    code, _ = place.finish(place.resume(conversation_id), place.out_after)
    assert (code, printed(place.out_after)) == (0, printed(place.out)[-1:])
    assert [encode_line(each) for each in place.conversations()[conversation_id]] == [encode_line(x) for x in before]

    text = [sys.executable, "-m", "turnwright", "resume", conversation_id, "--continue"]
    assert place.finish(text, place.out_after)[0] == 0
    assert place.out_after.read_text() == f"{LAST_WORDS}\n"


async def test_nothing_is_carried_on_but_what_the_user_said_since(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.lay_out()
    place.script.write_text("{follow: history, steps: [{text: one}, {text: two, expect: {user_contains: and then}}]}")
    model = Flag(path=("model",), value=f"scripted/{place.script}", flag="--model")
    loaded = load(place.workspace, flags=[model], environ={"TURNWRIGHT_HOME": str(place.home)})
    async with open_engine(loaded) as engine, engine.session(place.workspace) as session:
        async with first_turn(session, "begin", opening(loaded.settings, place.workspace)) as running:
            async for _ in running:
                pass
            conversation_id = running.conversation_id
        with pytest.raises(InputError, match=r"nothing to carry on in conversation .* run --resume"):
            async with carried_on(session, conversation_id) as running:
                async for _ in running:
                    pass
        async with carried_on(session, conversation_id) as running:
            await running.conversation.queue("and then")
            async for _ in running:
                pass
            assert running.outcome is not None
            assert (running.outcome.reason, running.outcome.text) == ("stop", "two")


def test_what_was_in_flight_is_told_before_anything_is_done(tmp_path: Path) -> None:
    """Two commands in one step: the first had its effect, and its end is not on record."""
    place = Place(tmp_path / "place")
    place.lay_out()
    assert place.finish(place.driver("run", "after run bash", "3"))[0] == -signal.SIGKILL
    ((conversation_id, before),) = place.conversations().items()

    ask = [sys.executable, "-m", "turnwright", "resume", conversation_id, "--json"]
    assert place.finish(ask, place.out_after)[0] == 0
    (in_flight,) = printed(place.out_after)
    states = {call["call_id"]: call["state"] for call in in_flight["calls"]}
    assert states == {"S3": "unknown", "S4": "not-started"}
    assert place.conversations() == {conversation_id: before}, "looking changes nothing"

    code, _ = place.finish(place.resume(conversation_id), place.out_after)
    ended = {line["call_id"]: line["outcome"] for line in printed(place.out_after) if line["type"] == "tool.ended"}
    assert (code, ended["S3"], ended["S4"]) == (0, "unknown", "ok")
    steps = [each.fact for each in place.conversations()[conversation_id] if isinstance(each.fact, StepStarted)]
    prefixes = [{name: hashed for name, hashed in step.segments.items() if name != "history"} for step in steps]
    assert all(prefix == prefixes[0] for prefix in prefixes), "another process sends the same prefix"
    assert place.effects.read_text().split() == ["S1", "S2", "S3", "S4", "S5", "S6"]


def test_a_new_task_after_a_death_closes_the_turn_that_died(tmp_path: Path) -> None:
    """The call that was under way reads as unknown, the one that never began is taken out, and neither is run."""
    place = Place(tmp_path / "place")
    place.lay_out()
    assert place.finish(place.driver("run", "after run bash", "3"))[0] == -signal.SIGKILL
    (conversation_id,) = place.conversations()
    more = [*place.run(), "--resume", conversation_id]
    assert place.finish(more, place.out_after)[0] == 0

    facts = [each.fact for each in place.conversations()[conversation_id]]
    ends = [fact for fact in facts if isinstance(fact, TurnEnded)]
    assert [(end.reason, end.detail) for end in ends] == [
        ("cancelled", "the process that ran the turn died"),
        ("stop", ""),
    ]
    history = History(conversation_id)
    for fact in facts:
        history.apply(fact)
    told = [message for message in history.messages if isinstance(message, ToolResults)]
    (cut_off,) = [results for message in told for results in message.results if results.call_id == "S3"]
    assert cut_off.output == interrupted_text(f"{ends[0].turn_id}#7")
    assert not [fact for fact in facts if isinstance(fact, ToolStarted) and fact.call_id == "S4"]
    assert place.effects.read_text().split() == ["S1", "S2", "S3", "S5", "S6"]


@pytest.mark.slow
def test_a_run_that_dies_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    """Each life passes a few moments more than it takes to get going, so the task is done in many short lives."""
    place = Place(tmp_path / "place")
    place.lay_out(asks=True)
    landings = Landings(place.workspace)
    code, _ = place.finish(place.driver("run", "40"))
    lives = 1
    while code == -signal.SIGKILL and lives < 40:
        code, _ = place.finish(place.driver("resume", "25"))
        lives += 1
    assert code == 0
    assert lives > 5
    ((_, facts),) = place.conversations().items()
    counts = effect_counts(place.effects, landings.counted())
    landings.close()
    starts = [each.fact.call_id for each in facts if isinstance(each.fact, ToolStarted)]
    assert all(counts[call_id] <= 1 and starts.count(call_id) == 1 for call_id in EFFECTS)
    assert verify(place.journal).clean


def test_the_command_says_that_the_journal_is_clean(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.lay_out(asks=True)
    assert place.finish(place.driver("run", "after run write", "1"))[0] == -signal.SIGKILL
    done = subprocess.run(
        [sys.executable, "-m", "turnwright", "journal", "verify"],
        env=environment({"TURNWRIGHT_HOME": str(place.home)}),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "clean")
