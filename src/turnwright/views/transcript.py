"""The conversation as a person reads it: who said what, what was done, what went wrong. Provenance is in the type.

A step's entries stay open while its calls run; then they are closed for good and never touched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    BlobRef,
    ContextCompacted,
    ConversationOpened,
    Errand,
    GuardTripped,
    InboxAdmitted,
    InboxWithdrawn,
    ModeChanged,
    ModelReplied,
    Note,
    Recorded,
    RouteSwitched,
    SteeringDelivered,
    StepStarted,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import CallId, ConversationId, StepId, TurnId
from turnwright.schema.messages import Image, ToolCall
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import Effect, StopReason, Verdict
from turnwright.views.elapsed import Elapsed, fold_elapsed
from turnwright.views.faults import failed
from turnwright.views.fold import Log

CallStatus: TypeAlias = Literal[
    "not-started", "running", "ok", "failed", "timeout", "interrupted", "unknown", "refused"
]


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call and what became of it. `unknown`: it had started and nobody saw its end."""

    call_id: CallId
    name: str
    arguments: str = ""
    raw: str = ""
    problem: str = ""
    effect: Effect | None = None
    status: CallStatus = "not-started"
    ended_seq: int | None = None
    ended_at: int | None = None
    output: str = ""
    output_blob: BlobRef | None = None
    images: tuple[Image, ...] = ()
    duration_ms: float | None = None
    original_bytes: int | None = None
    detail: dict[str, str | int | float | bool | None] = {}
    subagent: ConversationId | None = None
    """The conversation that it sent."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="entry"):
    """One thing that a reader sees."""

    seq: int
    at: int
    turn_id: TurnId | None = None
    step_id: StepId | None = None


class Opened(Entry, frozen=True, kw_only=True, tag="opened"):
    conversation_id: ConversationId
    workspace: str
    model: str
    turnwright: str
    title: str = ""
    parent: ConversationId | None = None
    forked_at: int | None = None
    errand: Errand | None = None
    """It is a subagent of `parent`."""


class Asked(Entry, frozen=True, kw_only=True, tag="asked"):
    """The user's words that opened a turn; `continued` carries on an interrupted one and has none."""

    text: str
    images: tuple[Image, ...] = ()
    mode: str = "build"
    continued: bool = False


class Steered(Entry, frozen=True, kw_only=True, tag="steered"):
    """The user's words in the middle of a turn."""

    text: str


class Noticed(Entry, frozen=True, kw_only=True, tag="noticed"):
    """The runtime's own words: to the model, or only for the record."""

    code: str
    text: str
    to_model: bool = False


class Guarded(Entry, frozen=True, kw_only=True, tag="guarded"):
    guard: str
    verdict: str
    why: str
    said: str | None = None
    call_id: CallId | None = None


class Replied(Entry, frozen=True, kw_only=True, tag="replied"):
    """What the model said and asked for. Without a verdict it is a reply that never became whole."""

    text: str = ""
    reasoning: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    verdict: Verdict | None = None
    route: str = ""


class Resulted(Entry, frozen=True, kw_only=True, tag="resulted"):
    """A result that was recorded after its own step was over: by recovery, or too late."""

    call: Call


class Faulted(Entry, frozen=True, kw_only=True, tag="faulted"):
    """An attempt that did not deliver."""

    attempt: int
    route: str
    verdict: Verdict
    purpose: str = "turn"
    status: int | None = None
    message: str = ""
    partial_text: str = ""


class Questioned(Entry, frozen=True, kw_only=True, tag="questioned"):
    approval_id: str
    question: str = ""
    choices: tuple[str, ...] = ()
    tool: str = ""
    answer: str | None = None
    by: str = ""


class Changed(Entry, frozen=True, kw_only=True, tag="changed"):
    what: Literal["mode", "route"]
    before: str
    after: str
    reason: str
    said: str | None = None
    """What the model was told of it."""


class Condensed(Entry, frozen=True, kw_only=True, tag="condensed"):
    """Everything up to `through_seq` now reaches the model only as this digest; without one, the output of some calls
    reaches it no longer."""

    through_seq: int
    digest: str
    stubbed: int = 0
    """Calls whose output the model no longer sees."""
    why: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None


class Ended(Entry, frozen=True, kw_only=True, tag="ended"):
    reason: StopReason
    detail: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    context_size: int | None = None
    duration_ms: float | None = None


class Waiting(Entry, frozen=True, kw_only=True, tag="waiting"):
    """The user's words that no turn has taken yet."""

    inbox_id: str
    text: str
    kind: Literal["steer", "queue"]


AnyEntry: TypeAlias = (
    Opened
    | Asked
    | Steered
    | Noticed
    | Guarded
    | Replied
    | Resulted
    | Faulted
    | Questioned
    | Changed
    | Condensed
    | Ended
    | Waiting
)


class Transcript(msgspec.Struct, frozen=True):
    """`closed` entries are final; those of the running step may still get results and answers."""

    closed: Log[AnyEntry] = Log()
    open: tuple[AnyEntry, ...] = ()
    in_step: bool = False
    elapsed: Elapsed | None = None
    waiting: dict[str, Waiting] = {}


def fold_transcript(state: Transcript, recorded: Recorded) -> Transcript:
    fact = recorded.fact
    state = replace(state, elapsed=fold_elapsed(state.elapsed, recorded))
    match fact:
        case StepStarted():
            return replace(_closed(state), in_step=True)
        case TurnStarted():
            asked = Asked(
                seq=recorded.seq,
                at=recorded.at,
                turn_id=fact.turn_id,
                text=fact.text,
                images=fact.images,
                mode=fact.mode,
                continued=fact.continued,
            )
            taken = _without(state, fact.inbox_ids)
            return _add(_closed(taken), asked)
        case TurnEnded():
            return _closed(_add(state, _ended(state, recorded, fact)))
        case ModelReplied():
            return _replied(state, recorded, fact)
        case ToolStarted():
            return _tool_started(state, recorded, fact)
        case ToolEnded():
            return _tool_ended(state, recorded, fact)
        case SubagentStarted():
            return _sent(state, fact)
        case ApprovalAnswered():
            return _answered(state, recorded, fact)
        case InboxAdmitted():
            return replace(state, waiting=state.waiting | {fact.inbox_id: _waiting(recorded, fact)})
        case InboxWithdrawn():
            return _without(state, (fact.inbox_id,))
        case SteeringDelivered():
            steered = Steered(
                seq=recorded.seq, at=recorded.at, turn_id=fact.turn_id, step_id=fact.step_id, text=fact.text
            )
            return _add(_without(state, fact.inbox_ids), steered)
        case _:
            entry = _simple(recorded)
            return state if entry is None else _add(state, entry)


def settled_so_far(state: Transcript) -> tuple[list[AnyEntry], Transcript]:
    """What will not change any more, and the state without it: a reader who prints as it goes keeps nothing."""
    return list(state.closed), replace(state, closed=Log())


def entries(state: Transcript, *, live: bool = False) -> Iterator[AnyEntry]:
    """Everything so far, in reading order; what still waits in the inbox comes last. Only where the turn is known to
    run (`live`) does a call without an end read "running"."""
    yield from state.closed
    yield from state.open if live else map(_settled, state.open)
    yield from state.waiting.values()


def _simple(recorded: Recorded) -> AnyEntry | None:
    """Facts that become one entry and never change again."""
    fact, seq, at = recorded.fact, recorded.seq, recorded.at
    match fact:
        case ConversationOpened():
            return _opened(recorded, fact)
        case AttemptEnded() if failed(fact.verdict):
            return _faulted(recorded, fact)
        case GuardTripped():
            return Guarded(
                seq=seq,
                at=at,
                turn_id=fact.turn_id,
                step_id=fact.step_id,
                guard=fact.guard,
                verdict=fact.verdict,
                why=fact.why,
                said=None if fact.said is None else fact.said.text,
                call_id=fact.call_id,
            )
        case Note(code="permitted"):
            return None  # for the record: the call stands right behind it
        case Note():
            return Noticed(
                seq=seq,
                at=at,
                turn_id=fact.turn_id,
                step_id=fact.step_id,
                code=fact.code,
                text=fact.text if fact.said is None else fact.said.text,
                to_model=fact.said is not None,
            )
        case ApprovalAsked():
            return Questioned(
                seq=seq,
                at=at,
                turn_id=fact.turn_id,
                step_id=fact.step_id,
                approval_id=fact.approval_id,
                question=fact.question,
                choices=fact.choices,
                tool=fact.tool,
            )
        case _:
            return _switched(recorded)


def _switched(recorded: Recorded) -> AnyEntry | None:
    """What changed the way the turn runs."""
    fact, seq, at = recorded.fact, recorded.seq, recorded.at
    match fact:
        case ModeChanged():
            said = fact.said.text if fact.said is not None else None
            return Changed(
                seq=seq, at=at, what="mode", before=fact.before, after=fact.after, reason=fact.reason, said=said
            )
        case RouteSwitched():
            return Changed(seq=seq, at=at, what="route", before=fact.before, after=fact.after, reason=fact.reason)
        case ContextCompacted():
            return Condensed(
                seq=seq,
                at=at,
                through_seq=fact.through_seq,
                digest=fact.digest,
                stubbed=len(fact.stubbed),
                why=fact.why,
                tokens_before=fact.tokens_before,
                tokens_after=fact.tokens_after,
            )
        case _:
            return None


def _opened(recorded: Recorded, fact: ConversationOpened) -> Opened:
    return Opened(
        seq=recorded.seq,
        at=recorded.at,
        conversation_id=recorded.conversation_id,
        workspace=fact.workspace,
        model=fact.model,
        turnwright=fact.turnwright,
        title=fact.title,
        parent=fact.parent,
        forked_at=fact.forked_at,
        errand=fact.errand,
    )


def _faulted(recorded: Recorded, fact: AttemptEnded) -> Faulted:
    return Faulted(
        seq=recorded.seq,
        at=recorded.at,
        turn_id=fact.turn_id,
        step_id=fact.step_id,
        attempt=fact.attempt,
        route=fact.route,
        verdict=fact.verdict,
        purpose=fact.purpose,
        status=fact.fault.status if fact.fault else None,
        message=fact.fault.message if fact.fault else "",
        partial_text=fact.partial_text,
    )


def _ended(state: Transcript, recorded: Recorded, fact: TurnEnded) -> Ended:
    return Ended(
        seq=recorded.seq,
        at=recorded.at,
        turn_id=fact.turn_id,
        reason=fact.reason,
        detail=fact.detail,
        steps=fact.steps,
        usage=fact.usage,
        cost_usd=fact.cost_usd,
        context_size=fact.context_size,
        duration_ms=None if state.elapsed is None else state.elapsed.ms,
    )


def _waiting(recorded: Recorded, fact: InboxAdmitted) -> Waiting:
    return Waiting(seq=recorded.seq, at=recorded.at, inbox_id=fact.inbox_id, text=fact.text, kind=fact.kind)


def _without(state: Transcript, inbox_ids: tuple[str, ...]) -> Transcript:
    if not any(inbox_id in state.waiting for inbox_id in inbox_ids):
        return state
    return replace(state, waiting={key: value for key, value in state.waiting.items() if key not in inbox_ids})


def _add(state: Transcript, entry: AnyEntry) -> Transcript:
    """Outside a step nothing is amended later, so that nothing needs to be held open."""
    if state.in_step:
        return replace(state, open=(*state.open, entry))
    return replace(state, closed=state.closed.add(entry))


def _closed(state: Transcript) -> Transcript:
    if not state.in_step:
        return state
    return replace(state, closed=state.closed.add(*map(_settled, state.open)), open=(), in_step=False)


def _settled(entry: AnyEntry) -> AnyEntry:
    """A call without an end reads "outcome unknown", never "did not happen"."""
    if not isinstance(entry, Replied) or all(call.status != "running" for call in entry.calls):
        return entry
    return replace(
        entry,
        calls=tuple(replace(call, status="unknown") if call.status == "running" else call for call in entry.calls),
    )


def _replied(state: Transcript, recorded: Recorded, fact: ModelReplied) -> Transcript:
    """Calls that started while the reply still streamed move into it, in call order; those of an attempt that was
    given up stay where they were."""
    wanted = {call.id for call in fact.message.calls}
    early = {call.call_id: call for entry in state.open if isinstance(entry, Replied) for call in entry.calls}
    left: list[AnyEntry] = []
    for entry in state.open:
        if isinstance(entry, Replied) and entry.verdict is None:
            calls = tuple(call for call in entry.calls if call.call_id not in wanted)
            if calls:
                left.append(replace(entry, calls=calls))
        else:
            left.append(entry)
    reply = Replied(
        seq=recorded.seq,
        at=recorded.at,
        turn_id=fact.turn_id,
        step_id=fact.step_id,
        text=fact.message.text,
        reasoning=tuple(block.text for block in fact.message.reasoning),
        calls=tuple(_asked_for(call, early.get(call.id)) for call in fact.message.calls),
        verdict=fact.verdict,
        route=fact.message.route,
    )
    return _add(replace(state, open=tuple(left)), reply)


def _asked_for(call: ToolCall, early: Call | None) -> Call:
    known = early or Call(call_id=call.id, name=call.name)
    return replace(known, name=call.name, arguments=call.arguments, raw=call.raw, problem=call.problem)


def _tool_started(state: Transcript, recorded: Recorded, fact: ToolStarted) -> Transcript:
    def started(call: Call) -> Call:
        return replace(call, arguments=fact.arguments, effect=fact.effect, status="running")

    call_id = fact.call_id or ""
    amended = _amended(state, call_id, started)
    if amended is not None:
        return amended
    call = started(Call(call_id=call_id, name=fact.name))
    reply = Replied(seq=recorded.seq, at=recorded.at, turn_id=fact.turn_id, step_id=fact.step_id, calls=(call,))
    return _add(state, reply if state.in_step else _settled(reply))


def _tool_ended(state: Transcript, recorded: Recorded, fact: ToolEnded) -> Transcript:
    def ended(call: Call) -> Call:
        return replace(
            call,
            status=fact.outcome,
            ended_seq=recorded.seq,
            ended_at=recorded.at,
            output=fact.output,
            output_blob=fact.output_blob,
            images=fact.images,
            duration_ms=fact.duration_ms,
            original_bytes=fact.original_bytes,
            detail=fact.detail,
        )

    call_id = fact.call_id or ""
    amended = _amended(state, call_id, ended)
    if amended is not None:
        return amended
    call = ended(Call(call_id=call_id, name=fact.name))
    return _add(
        state, Resulted(seq=recorded.seq, at=recorded.at, turn_id=fact.turn_id, step_id=fact.step_id, call=call)
    )


def _sent(state: Transcript, fact: SubagentStarted) -> Transcript:
    sent = _amended(state, fact.call_id or "", lambda call: replace(call, subagent=fact.conversation))
    return state if sent is None else sent


def _amended(state: Transcript, call_id: CallId, change: Callable[[Call], Call]) -> Transcript | None:
    """The state with that open call changed; None where no such call is open."""
    for place in range(len(state.open) - 1, -1, -1):
        entry = state.open[place]
        if isinstance(entry, Replied) and any(call.call_id == call_id for call in entry.calls):
            calls = tuple(change(call) if call.call_id == call_id else call for call in entry.calls)
            return _put(state, place, replace(entry, calls=calls))
    return None


def _answered(state: Transcript, recorded: Recorded, fact: ApprovalAnswered) -> Transcript:
    for place in range(len(state.open) - 1, -1, -1):
        entry = state.open[place]
        if isinstance(entry, Questioned) and entry.approval_id == fact.approval_id:
            return _put(state, place, replace(entry, answer=fact.answer, by=fact.by))
    alone = Questioned(
        seq=recorded.seq,
        at=recorded.at,
        turn_id=fact.turn_id,
        step_id=fact.step_id,
        approval_id=fact.approval_id,
        answer=fact.answer,
        by=fact.by,
    )
    return _add(state, alone)


def _put(state: Transcript, place: int, entry: AnyEntry) -> Transcript:
    return replace(state, open=(*state.open[:place], entry, *state.open[place + 1 :]))
