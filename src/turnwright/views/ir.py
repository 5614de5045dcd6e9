"""A run in a form that other programs can build on (`ir.json`): small, versioned, independent of facts' history.

Fields are only added; what changes meaning raises `version`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import BlobRef
from turnwright.schema.messages import Image
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import StopReason, Verdict
from turnwright.views.transcript import (
    AnyEntry,
    Asked,
    Call,
    Changed,
    Condensed,
    Ended,
    Guarded,
    Noticed,
    Opened,
    Replied,
    Resulted,
    Steered,
)

IR_VERSION = 1


class IrMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="role"):
    """`seq` is the fact it comes from."""

    seq: int
    at: int
    step_id: str | None = None


class IrUser(IrMessage, frozen=True, kw_only=True, tag="user"):
    text: str
    images: tuple[Image, ...] = ()
    steering: bool = False
    """Said while the turn ran."""


class IrRuntime(IrMessage, frozen=True, kw_only=True, tag="runtime"):
    """What the runtime said to the model."""

    text: str
    code: str


class IrCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`arguments` is the text of a JSON object; `raw` is what was sent where that was none."""

    id: str
    name: str
    arguments: str
    raw: str = ""
    problem: str = ""


class IrAssistant(IrMessage, frozen=True, kw_only=True, tag="assistant"):
    """`verdict` is absent where the reply never became whole."""

    text: str = ""
    reasoning: tuple[str, ...] = ()
    calls: tuple[IrCall, ...] = ()
    verdict: Verdict | None = None
    route: str = ""


class IrResult(IrMessage, frozen=True, kw_only=True, tag="tool"):
    """In call order, right after the message that asked. A payload stored apart is named by `output_blob`. A call that
    never started or never ended has the message's own `seq`."""

    call_id: str
    name: str
    outcome: Literal["not-started", "running", "ok", "failed", "timeout", "interrupted", "unknown", "refused"]
    output: str = ""
    output_blob: BlobRef | None = None
    images: tuple[Image, ...] = ()
    duration_ms: float | None = None
    detail: dict[str, str | int | float | bool | None] = {}


class IrDigest(IrMessage, frozen=True, kw_only=True, tag="digest"):
    """From here on it stands, for the model, for everything through `through_seq`."""

    through_seq: int
    text: str


AnyIrMessage: TypeAlias = IrUser | IrRuntime | IrAssistant | IrResult | IrDigest


class IrTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`reason` is absent where the turn has no end; `cost_usd` where it is unknown."""

    id: str
    started_at: int
    ended_at: int | None = None
    mode: str = "build"
    continued: bool = False
    reason: StopReason | None = None
    reason_detail: str = ""
    steps: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    context_size: int | None = None
    messages: tuple[AnyIrMessage, ...] = ()


class IrConversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str = ""
    opened_at: int | None = None
    workspace: str = ""
    model: str = ""
    turnwright: str = ""
    title: str = ""
    parent: str | None = None
    forked_at: int | None = None


class Ir(msgspec.Struct, frozen=True, kw_only=True):
    conversation: IrConversation
    turns: tuple[IrTurn, ...]
    format: Literal["turnwright-ir"] = "turnwright-ir"
    version: int = IR_VERSION


def ir(shown: Iterable[AnyEntry]) -> Ir:
    """From the entries of a transcript. What was said outside any turn is in no turn, and so not here."""
    conversation = IrConversation()
    turns: list[IrTurn] = []
    turn: IrTurn | None = None
    messages: list[AnyIrMessage] = []
    for entry in shown:
        match entry:
            case Opened():
                conversation = _conversation(entry)
            case Asked():
                turns += _whole(turn, messages)
                messages = []
                turn = IrTurn(id=entry.turn_id or "", started_at=entry.at, mode=entry.mode, continued=entry.continued)
            case Ended() if turn is not None:
                turn = _ended(turn, entry)
            case _:
                pass
        if turn is not None:
            messages += _messages(entry)
    turns += _whole(turn, messages)
    return Ir(conversation=conversation, turns=tuple(turns))


def encode_ir(whole: Ir) -> bytes:
    return msgspec.json.encode(whole)


def encode_ir_pieces(whole: Ir) -> Iterator[bytes]:
    """The same bytes turn by turn, so that the document is never in memory beside what it is made of."""
    yield b'{"conversation":' + msgspec.json.encode(whole.conversation) + b',"turns":['
    for place, turn in enumerate(whole.turns):
        yield (b"," if place else b"") + msgspec.json.encode(turn)
    yield b'],"format":%b,"version":%d}' % (msgspec.json.encode(whole.format), whole.version)


def ir_schema() -> dict[str, Any]:
    """The JSON Schema of `ir.json`."""
    return msgspec.json.schema(Ir)


def _conversation(entry: Opened) -> IrConversation:
    return IrConversation(
        id=entry.conversation_id,
        opened_at=entry.at,
        workspace=entry.workspace,
        model=entry.model,
        turnwright=entry.turnwright,
        title=entry.title,
        parent=entry.parent,
        forked_at=entry.forked_at,
    )


def _whole(turn: IrTurn | None, messages: list[AnyIrMessage]) -> list[IrTurn]:
    return [] if turn is None else [replace(turn, messages=tuple(messages))]


def _ended(turn: IrTurn, entry: Ended) -> IrTurn:
    return replace(
        turn,
        ended_at=entry.at,
        reason=entry.reason,
        reason_detail=entry.detail,
        steps=entry.steps,
        usage=entry.usage,
        cost_usd=entry.cost_usd,
        context_size=entry.context_size,
    )


def _messages(entry: AnyEntry) -> Iterator[AnyIrMessage]:
    match entry:
        case Asked() if entry.text or entry.images or not entry.continued:
            yield IrUser(seq=entry.seq, at=entry.at, text=entry.text, images=entry.images)
        case Steered():
            yield IrUser(seq=entry.seq, at=entry.at, step_id=entry.step_id, text=entry.text, steering=True)
        case Noticed() if entry.to_model:
            yield IrRuntime(seq=entry.seq, at=entry.at, step_id=entry.step_id, text=entry.text, code=entry.code)
        case Guarded(said=str(said)):
            yield IrRuntime(seq=entry.seq, at=entry.at, step_id=entry.step_id, text=said, code=f"guard:{entry.guard}")
        case Changed(said=str(said)):
            yield IrRuntime(seq=entry.seq, at=entry.at, step_id=entry.step_id, text=said, code=entry.what)
        case Condensed() if entry.digest:
            yield IrDigest(seq=entry.seq, at=entry.at, through_seq=entry.through_seq, text=entry.digest)
        case Replied():
            yield ir_assistant(entry)
            for call in entry.calls:
                yield _result(entry, call)
        case Resulted():
            yield _result(entry, entry.call)
        case _:
            pass


def ir_assistant(entry: Replied) -> IrAssistant:
    calls = tuple(
        IrCall(id=call.call_id, name=call.name, arguments=call.arguments, raw=call.raw, problem=call.problem)
        for call in entry.calls
    )
    return IrAssistant(
        seq=entry.seq,
        at=entry.at,
        step_id=entry.step_id,
        text=entry.text,
        reasoning=entry.reasoning,
        calls=calls,
        verdict=entry.verdict,
        route=entry.route,
    )


def _result(entry: Replied | Resulted, call: Call) -> IrResult:
    return IrResult(
        seq=call.ended_seq or entry.seq,
        at=call.ended_at or entry.at,
        step_id=entry.step_id,
        call_id=call.call_id,
        name=call.name,
        outcome=call.status,
        output=call.output,
        output_blob=call.output_blob,
        images=call.images,
        duration_ms=call.duration_ms,
        detail=call.detail,
    )
