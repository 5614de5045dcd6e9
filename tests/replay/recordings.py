"""The ten runs: what is run, how it is disturbed, and what must be on record of that."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    ConversationOpened,
    Fact,
    Note,
    Recorded,
    RouteSwitched,
    SteeringDelivered,
    SubagentEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)

if TYPE_CHECKING:
    from ten_runs import Place

FAULTY, TEXT = "faulty provider", "text dialect"
Conversations: TypeAlias = Mapping[str, list[Recorded]]


@dataclass(frozen=True)
class Recording:
    name: str
    record: Callable[[Place, Mapping[str, str]], None]
    has: Callable[[Sequence[Fact]], bool]
    """Of all facts: that the run was what its name says."""
    about: Callable[[ConversationOpened], bool] = lambda opened: True

    def told(self, conversations: Conversations) -> Iterator[tuple[str, list[Recorded]]]:
        for name, facts in conversations.items():
            opened = [each.fact for each in facts if isinstance(each.fact, ConversationOpened)]
            if self.about(opened[-1]):
                yield name, facts

    def wrong(self, conversations: Conversations) -> str | None:
        facts = [each.fact for found in conversations.values() for each in found if isinstance(each.fact, Fact)]
        return None if self.has(facts) else f"it was not {self.name}: {[type(fact).__name__ for fact in facts]}"


def script(place: Place, *steps: dict[str, Any], name: str = "script", **more: Any) -> str:
    path = place.root / f"{name}.json"
    path.write_text(json.dumps({"follow": "history", "steps": list(steps), **more}))
    return f"scripted/{path}"


def call(name: str, identity: str, **arguments: Any) -> dict[str, Any]:
    return {"id": identity, "name": name, "arguments": arguments}


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": text, "calls": list(calls), **more}


def config(place: Place, **settings: Any) -> None:
    (place.home / "config.yaml").write_text(json.dumps(settings))


def count(facts: Sequence[Fact], kind: type[Fact]) -> int:
    return sum(isinstance(fact, kind) for fact in facts)


def ends(facts: Sequence[Fact]) -> list[str]:
    return [fact.reason for fact in facts if isinstance(fact, TurnEnded)]


# Scripted


def _scripted(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    model = script(
        place,
        says("I look first.", call("ls", "A")),
        says("Now I write.", call("write", "B", path="made.txt", content="made\n")),
        says("And run.", call("bash", "C", command="cat made.txt; exit 3")),
        says("It says made."),
    )
    place("run", "make it", "--model", model)


# A provider that answers with pages and breaks off, until another one is asked


def _faulty(place: Place, urls: Mapping[str, str]) -> None:
    config(
        place,
        model="pages/bad",
        capture="all",
        providers={
            "pages": _host(f"{urls['bad']}/html-200.openai-chat.stream.text"),
            "good": _host(urls["good"]),
            "routing": {"fallback": ["good/fake"]},
        },
    )
    place("run", "look twice")


def _host(url: str) -> dict[str, str]:
    return {"dialect": "openai-chat", "base_url": url, "api_key_env": "PATH"}


# Cancelled in the middle of a command


def _cancelled(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    model = script(place, says("I wait.", call("bash", "A", command="touch here; echo begun; sleep 60")), says("no"))
    with place.popen("run", "wait", "--model", model) as process:
        place.until((place.work / "here").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130, process.returncode


# Steered from another process


def _steered(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    wait = "touch here; until [ -e go ]; do sleep 0.02; done"
    model = script(place, says("I wait.", call("bash", "A", command=wait)), says("I heard you."), says("And that."))
    with place.popen("run", "wait", "--model", model) as process:
        place.until((place.work / "here").exists)
        place("steer", "last", "be quick about it")
        place("queue", "last", "and then this")
        (place.work / "go").touch()
        process.communicate(timeout=30)
    assert process.returncode == 0, process.returncode


# Condensed on the way


def _compacted(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    config(place, loop={"compaction": {"keep_tokens": 200, "apart_steps": 0}})
    shows = [says(f"Look {n}.", call("bash", f"S{n}", command=f"seq {n} 900")) for n in range(12)]
    model = script(place, *shows, says("Seen."), window=9_000, max_output=500, digest="Twelve numbers were looked at.")
    place("run", "look often", "--model", model)


# Forked in the middle, with another task


def _forked(place: Place, urls: Mapping[str, str]) -> None:
    _scripted(place, urls)
    other = script(place, says("I look first."), says("Rather this."), says("Done."), name="other")
    (facts,) = place.conversations().values()
    middle = next(each.seq for each in facts if isinstance(each.fact, ToolEnded)) + 2
    place("run", "--fork", f"last:{middle}", "rather something else", "--model", other)


# Subagents, side by side and below each other


def _subagents(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    two = [call("task", f"K{n}", brief=f"part {n}", title=f"part {n}") for n in range(2)]
    parent = script(place, says("I send two.", *two), says("Both are back."), name="parent")
    below = call("task", "D", brief="deeper", tools=["ls"])
    child = script(place, says("I send one.", below, call("read", "R", path="1.txt")), says("Read."), name="child")
    place("run", "share it", "--model", parent, "--set", f"subagents.model={child}")


# Calls side by side, begun while the reply still streams


def _parallel(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    reads = [call("read", f"R{n}", path=f"{n}.txt") for n in range(4)]
    more = [call("grep", "G1", pattern="this"), call("bash", "S1", command="sleep 0.05; echo one"), call("ls", "L1")]
    again = [call("glob", "P1", pattern="*.txt"), call("read", "R5", path="none.txt"), call("read", "R6", path="0.txt")]
    model = script(
        place,
        says("All at once.", *reads, *more, gap_s=0.002),
        says("Again.", *again, call("nothing", "N1"), gap_s=0.002),
        says("Seen."),
    )
    place("run", "look", "--model", model, "--set", "loop.dispatch.eager=true")


# Calls that are written as text, over a real socket


def _text(place: Place, urls: Mapping[str, str]) -> None:
    config(
        place,
        model="plain/fake",
        capture="all",
        tools={"dialects": ["xml-json"]},
        providers={"plain": _host(urls["good"])},
    )
    place("run", "look")


# Killed in the middle of a command, and carried on by another process


def _killed(place: Place, urls: Mapping[str, str]) -> None:
    del urls
    model = script(
        place,
        says("I look.", call("ls", "A")),
        says("I begin.", call("bash", "B", command="touch here; sleep 60"), call("read", "C", path="1.txt")),
        says("I was told: {{last_result}}"),
        says("Done."),
    )
    with place.popen("run", "wait", "--model", model) as process:
        place.until((place.work / "here").exists)
        process.kill()
        process.communicate()
    place("resume", "last", "--continue", "--model", model)


def _is_killed(facts: Sequence[Fact]) -> bool:
    resumed = any(isinstance(fact, Note) and fact.code == "turn-resumed" for fact in facts)
    return resumed and any(isinstance(fact, ToolEnded) and fact.outcome == "unknown" for fact in facts)


def _side_by_side(facts: Sequence[Fact]) -> bool:
    running = most = 0
    for fact in facts:
        running += isinstance(fact, ToolStarted) - isinstance(fact, ToolEnded)
        most = max(most, running)
    return most >= 3


def _several_verdicts(facts: Sequence[Fact]) -> bool:
    verdicts = {fact.verdict for fact in facts if isinstance(fact, AttemptEnded)}
    return "interstitial" in verdicts and count(facts, RouteSwitched) > 0 and ends(facts) == ["stop"]


def _text_calls(facts: Sequence[Fact]) -> bool:
    return [fact.name for fact in facts if isinstance(fact, ToolEnded)] == ["ls"] and ends(facts) == ["stop"]


RECORDINGS = (
    Recording("scripted", _scripted, lambda facts: ends(facts) == ["stop"]),
    Recording(FAULTY, _faulty, _several_verdicts),
    Recording("cancelled", _cancelled, lambda facts: ends(facts) == ["cancelled"]),
    Recording("steered", _steered, lambda facts: count(facts, SteeringDelivered) == 1 and len(ends(facts)) == 2),
    Recording("compacted", _compacted, lambda facts: count(facts, ContextCompacted) > 0),
    Recording(
        "forked",
        _forked,
        lambda facts: count(facts, ConversationOpened) == 3,
        about=lambda opened: opened.forked_at is not None,
    ),
    Recording(
        "subagents",
        _subagents,
        lambda facts: count(facts, SubagentEnded) == 4,
        about=lambda opened: opened.errand is None,
    ),
    Recording("parallel tools", _parallel, _side_by_side),
    Recording(TEXT, _text, _text_calls),
    Recording("resumed after kill -9", _killed, _is_killed),
)
