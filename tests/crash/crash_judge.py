"""What must hold after a death and the carrying on that followed it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from crash_task import EFFECTS, LAST_WORDS, SUBAGENT, SUBAGENT_EFFECTS, SUBAGENT_LAST_WORDS, UNREPEATED

from turnwright.journal.records import Report
from turnwright.kernel.history import History
from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ContextCompacted,
    InboxAdmitted,
    InboxWithdrawn,
    KnownFact,
    ModelReplied,
    Recorded,
    SteeringDelivered,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
    encode_line,
)
from turnwright.schema.messages import AssistantMessage, ToolResults

Kind: TypeAlias = Literal["lost", "doubled", "damaged", "unfinished", "untold", "left"]
"""`untold`: the model was not told what a crash made of its calls, or something else than the truth. `left`: a process
lived on."""

UNKNOWN_OUTCOME = "its outcome is unknown"


@dataclass(frozen=True)
class Fault:
    kind: Kind
    what: str


@dataclass
class Seen:
    """Everything that one trial left behind."""

    printed: list[bytes]
    """Whole lines of facts on stdout, in every process of the trial that died."""
    at_death: list[Recorded]
    effects_at_death: dict[str, int]
    verified_at_death: Report | None
    code: int
    """Of the last process."""
    last_line: bytes
    finally_: list[Recorded] = field(default_factory=list)
    conversations: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    verified: Report | None = None
    alive: tuple[str, ...] = ()
    acknowledged: list[dict[str, str]] = field(default_factory=list)
    """What the user was told in all processes of the trial, through the socket of its host."""
    subagents_at_death: dict[str, list[Recorded]] = field(default_factory=dict)
    subagents: dict[str, list[Recorded]] = field(default_factory=dict)


def faults(seen: Seen) -> Iterator[Fault]:
    yield from _lost(seen)
    yield from _effects(seen)
    yield from _finished(seen)
    yield from _told(seen)
    yield from _subagents(seen)
    yield from _letters(seen.finally_)
    yield from _acknowledged(seen)
    for report in (seen.verified_at_death, seen.verified):
        for finding in report.findings if report is not None else ():
            yield Fault("damaged", f"{finding.place}: {finding.message}")
    for process in seen.alive:
        yield Fault("left", f"still running: {process}")


def _lost(seen: Seen) -> Iterator[Fault]:
    """What was printed, and what was durable when it died, is there with the same bytes."""
    held = {encode_line(each) for each in seen.finally_}
    for line in seen.printed:
        if line not in held:
            yield Fault("lost", f"printed, and not in the journal: {line[:160]!r}")
    for each in seen.at_death:
        if encode_line(each) not in held:
            yield Fault("lost", f"was in the journal, and is not: seq {each.seq} {each.body[:120]!r}")
    seqs = [each.seq for each in seen.finally_]
    if seqs != list(range(1, len(seqs) + 1)):
        yield Fault("lost", f"seqs with a gap: {seqs}")


def _effects(seen: Seen) -> Iterator[Fault]:
    started_before = {each.fact.call_id for each in seen.at_death if isinstance(each.fact, ToolStarted)}
    starts = Counter(each.fact.call_id for each in seen.finally_ if isinstance(each.fact, ToolStarted))
    ends = {each.fact.call_id: each.fact for each in seen.finally_ if isinstance(each.fact, ToolEnded)}
    for call_id in EFFECTS:
        count = seen.effects[call_id]
        if count > 1 or starts[call_id] > 1:
            yield Fault("doubled", f"{call_id} had its effect {count} times and started {starts[call_id]} times")
        if seen.effects_at_death[call_id] and call_id not in started_before:
            yield Fault("lost", f"{call_id} had its effect before its start was on record")
        end = ends.get(call_id)
        if end is None:
            yield Fault("unfinished", f"{call_id} has no end")
        elif end.outcome == "ok" and not count:
            yield Fault("lost", f"{call_id} is on record as done, and had no effect")
        elif end.outcome == "unknown" and call_id not in started_before:
            yield Fault("untold", f"{call_id} had not started when it died, and is called unknown")


def _finished(seen: Seen) -> Iterator[Fault]:
    facts = [each.fact for each in seen.finally_]
    if seen.code != 0:
        yield Fault("unfinished", f"exit code {seen.code}, last line {seen.last_line[:300]!r}")
    result = json.loads(seen.last_line or b"{}")
    if (result.get("type"), result.get("reason")) != ("result", "stop"):
        yield Fault("unfinished", f"the last line is {seen.last_line[:300]!r}")
    if seen.conversations != 1:
        yield Fault("unfinished", f"{seen.conversations} conversations where one task was given")
    match facts[-1:]:
        case [TurnEnded(reason="stop", text=text)] if text == LAST_WORDS:
            pass
        case last:
            yield Fault("unfinished", f"the last fact is {last}")
    turns = Counter(type(fact) for fact in facts)
    wanted = 1 + sum(isinstance(fact, TurnStarted) and bool(fact.inbox_ids) for fact in facts)
    if turns[TurnStarted] != wanted or turns[TurnEnded] != wanted:
        yield Fault("unfinished", f"{turns[TurnStarted]} turns started and {turns[TurnEnded]} ended, of {wanted}")


def _told(seen: Seen) -> Iterator[Fault]:
    """A call that may have had its effect is not repeated, and the model reads so; reads are simply repeated."""
    started = {each.fact.call_id: each.fact for each in seen.at_death if isinstance(each.fact, ToolStarted)}
    ended = {each.fact.call_id for each in seen.at_death if isinstance(each.fact, ToolEnded)}
    finally_ = {each.fact.call_id: each.fact for each in seen.finally_ if isinstance(each.fact, ToolEnded)}
    read_by_model = _results(seen.finally_)
    for call_id, start in started.items():
        if call_id is None or call_id in ended or call_id not in finally_:
            continue
        outcome = finally_[call_id].outcome
        known = call_id == SUBAGENT and _had_ended(seen)
        wanted = "unknown" if start.idempotency == "once" and not known else "ok"
        if outcome != wanted:
            yield Fault("untold", f"{call_id} was cut off; its outcome should read {wanted}, and reads {outcome}")
        if wanted == "unknown" and UNKNOWN_OUTCOME not in read_by_model.get(call_id, ""):
            yield Fault("untold", f"the model read of {call_id}: {read_by_model.get(call_id)!r}")
        if wanted == "unknown" and call_id not in UNREPEATED and not _repeated(seen.finally_, call_id):
            yield Fault("untold", f"no reply of the model repeats what it was told of {call_id}")


def _had_ended(seen: Seen) -> bool:
    """A subagent's end is on record where it counts: in its own journal."""
    ends = [
        each.fact for facts in seen.subagents_at_death.values() for each in facts if isinstance(each.fact, TurnEnded)
    ]
    return any(end.reason == "stop" for end in ends)


def _subagents(seen: Seen) -> Iterator[Fault]:
    """What one did stands as it was left; it is on record before its effects, done once, and has its end."""
    for name, facts in seen.subagents_at_death.items():
        held = {encode_line(each) for each in seen.subagents.get(name, ())}
        for each in facts:
            if encode_line(each) not in held:
                yield Fault("lost", f"was in the journal of {name}, and is not: seq {each.seq}")
    before = _starts(seen.subagents_at_death)
    starts = _starts(seen.subagents)
    for tag in SUBAGENT_EFFECTS:
        count = seen.effects.get(tag, 0)
        if count > 1 or starts[tag] > 1:
            yield Fault("doubled", f"{tag} had its effect {count} times and started {starts[tag]} times")
        if seen.effects_at_death.get(tag, 0) and not before[tag]:
            yield Fault("lost", f"{tag} had its effect before its start was on record")
    said = [each.fact for each in seen.finally_]
    sent = Counter(fact.conversation for fact in said if isinstance(fact, SubagentStarted))
    ended = Counter(fact.conversation for fact in said if isinstance(fact, SubagentEnded))
    if sent != ended:
        yield Fault("unfinished", f"subagents were sent {dict(sent)}, and ended {dict(ended)}")
    for fact in said:
        if isinstance(fact, ToolEnded) and fact.call_id == SUBAGENT and fact.outcome == "ok":
            missing = [tag for tag in SUBAGENT_EFFECTS if seen.effects.get(tag, 0) != 1]
            if missing or fact.output != SUBAGENT_LAST_WORDS:
                yield Fault("untold", f"the subagent is on record as done, without {missing}: {fact.output!r}")


def _starts(conversations: Mapping[str, Sequence[Recorded]]) -> Counter[str | None]:
    return Counter(
        each.fact.call_id for facts in conversations.values() for each in facts if isinstance(each.fact, ToolStarted)
    )


def _results(facts: Sequence[Recorded]) -> dict[str, str]:
    """What the model reads of each call. Each call has one result, right behind its reply."""
    history = History("judge")
    told: dict[str, str] = {}
    for each in facts:
        if isinstance(each.fact, ContextCompacted):
            told = _told_so_far(history) | told  # from here on it is shown no longer, or not as it was
        history.apply(each.fact)
    return _told_so_far(history) | told


def _told_so_far(history: History) -> dict[str, str]:
    told: dict[str, str] = {}
    for message, following in pairwise([*history.messages, None]):
        if isinstance(message, AssistantMessage) and message.calls:
            assert isinstance(following, ToolResults), f"a reply with calls is followed by {following}"
            assert [call.id for call in message.calls] == [result.call_id for result in following.results]
            told |= {result.call_id: result.output for result in following.results}
    return told


def _repeated(facts: Sequence[Recorded], call_id: str) -> bool:
    """The scripted model repeats its last results: the reply after this call's must speak of the unknown outcome."""
    replies = [each.fact.message for each in facts if isinstance(each.fact, ModelReplied)]
    for reply, following in pairwise(replies):
        if any(call.id == call_id for call in reply.calls):
            return UNKNOWN_OUTCOME in following.text
    return False


def _letters(facts: Sequence[Recorded]) -> Iterator[Fault]:
    """What the user said while the turn ran: admitted once, delivered once, unless it was taken back. What was queued
    opens a turn of its own."""
    said = [each.fact for each in facts]
    admitted, withdrawn = _admitted(said, "steer") | _admitted(said, "queue"), _withdrawn(said)
    delivered = Counter(
        inbox_id for fact in said if isinstance(fact, SteeringDelivered | TurnStarted) for inbox_id in fact.inbox_ids
    )
    for inbox_id in admitted | set(delivered):
        wanted = 0 if inbox_id in withdrawn else 1
        if delivered[inbox_id] != wanted:
            kind: Kind = "lost" if delivered[inbox_id] < wanted else "doubled"
            yield Fault(kind, f"letter {inbox_id} was delivered {delivered[inbox_id]} times")


def _acknowledged(seen: Seen) -> Iterator[Fault]:
    """What the user was told holds: a letter is on record once, one that was taken back is not delivered, and nothing
    is asked again that was answered."""
    facts = [each.fact for each in seen.finally_]
    admitted = Counter(fact.inbox_id for fact in facts if isinstance(fact, InboxAdmitted))
    withdrawn = _withdrawn(facts)
    for inbox_id, count in admitted.items():
        if count > 1:
            yield Fault("doubled", f"letter {inbox_id} was admitted {count} times")
    for told in seen.acknowledged:
        match told:
            case {"request": "steer" | "queue", "inbox_id": inbox_id} if not admitted[inbox_id]:
                yield Fault("lost", f"letter {inbox_id} was acknowledged, and is not on record")
            case {"request": "withdraw", "state": "withdrawn", "inbox_id": inbox_id} if inbox_id not in withdrawn:
                yield Fault("lost", f"letter {inbox_id} was taken back, and that is not on record")
            case {"request": "answer"}:
                yield from _answer(facts, told["approval_id"], told["answer"])
            case _:
                pass


def _answer(facts: Sequence[KnownFact | Unknown], approval_id: str, answer: str) -> Iterator[Fault]:
    at = [n for n, fact in enumerate(facts) if isinstance(fact, ApprovalAnswered) and fact.approval_id == approval_id]
    if not at:
        yield Fault("lost", f"the answer to {approval_id} was acknowledged, and is not on record")
        return
    if any(isinstance(fact, ApprovalAsked) for fact in facts[at[0] :]):
        yield Fault("doubled", f"{approval_id} was answered, and its question was asked again")
    ended = [fact for fact in facts[at[0] :] if isinstance(fact, ToolEnded) and fact.name == "ask_user"]
    if [fact.output for fact in ended] != [answer]:
        yield Fault("lost", f"the tool that asked {approval_id} ended with {[fact.output for fact in ended]}")


def _admitted(facts: Sequence[KnownFact | Unknown], kind: Literal["steer", "queue"]) -> set[str]:
    return {fact.inbox_id for fact in facts if isinstance(fact, InboxAdmitted) and fact.kind == kind}


def _withdrawn(facts: Sequence[KnownFact | Unknown]) -> set[str]:
    return {fact.inbox_id for fact in facts if isinstance(fact, InboxWithdrawn)}
