"""Facts: what happened, in the past tense, durable and numbered. Never edited; a correction is another fact.

A fact's JSON is one flat object: the envelope's fields (F2) and its own. `encode` writes it and `decode` reads it;
both keep what they do not know, so that an older Turnwright can carry a newer one's journal.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from turnwright.schema.ids import CallId, ConversationId, Seq, StepId, TurnId
from turnwright.schema.messages import AssistantMessage, Image, Message, RuntimeMessage
from turnwright.schema.modes import Course
from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price
from turnwright.schema.sandbox import Confinement
from turnwright.schema.tiers import Tier, Tiers
from turnwright.schema.verdicts import (
    Effect,
    ErrorKind,
    FinishClass,
    Idempotency,
    StallReason,
    StopReason,
    TaskClass,
    Verdict,
)

SCHEMA_VERSION = 1

Visibility: TypeAlias = Literal["model", "host", "audit"]
"""Who is meant to read it: `model` enters history, `host` is for people and programs, `audit` is for the record."""


RecordedRules: TypeAlias = dict[str, str | int | float | bool | None]


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """A payload stored apart, once, under its hash."""

    sha256: str
    size_bytes: int


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """Something that happened. It holds nothing that could lead back to it, so the garbage collector need not look."""

    visibility: ClassVar[Visibility] = "host"

    turn_id: TurnId | None = None
    step_id: StepId | None = None
    call_id: CallId | None = None


class Errand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a subagent may do and spend, settled when it is sent."""

    depth: int
    """1 for a subagent of a conversation that is nobody's."""
    mode: str = "build"
    tools: tuple[str, ...] = ()
    """Everything that it is offered."""
    model: str = ""
    """Empty: the one of the conversation that sent it."""
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    """Its own caps; those above it hold as well."""


class ConversationOpened(Fact, frozen=True, kw_only=True, tag="conversation.opened"):
    workspace: str
    model: str
    turnwright: str
    """The version that opened it."""
    base_url: str = ""
    """The endpoint that was given for this conversation alone, so that another process can carry it on."""
    dialect: str = ""
    api_key_env: str = ""
    parent: ConversationId | None = None
    forked_at: Seq | None = None
    """The last fact that it shares with `parent`, where it is a fork of it."""
    settings: dict[str, str] = {}
    """What was set for this conversation alone, by `--set`."""
    ssh: str = ""
    """`HOST:FOLDER` where it works on another computer; `workspace` is then where its configuration is."""
    title: str = ""
    errand: Errand | None = None
    """It is a subagent of `parent`; `call_id` is the call there that sent it."""


class TurnStarted(Fact, frozen=True, kw_only=True, tag="turn.started"):
    visibility: ClassVar[Visibility] = "model"

    text: str
    """What the user asked."""
    images: tuple[Image, ...] = ()
    mode: str = "build"
    continued: bool = False
    """This turn carries on one that ended early: nothing new was said, and `text` is empty."""
    inbox_ids: tuple[str, ...] = ()
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    """The caps that hold for the task: this turn, those that carry it on, and their subagents."""
    rules: RecordedRules = {}
    """The limits, retries and dispatch it runs by, as `limits.max_steps`: what a replay needs to decide alike."""
    task_class: TaskClass = "other"
    task_signals: tuple[str, ...] = ()
    """What in the request speaks for its class."""
    course: Course = Course()
    """The modes that it goes through, beginning with `mode`."""
    tiers: Tiers | None = None
    tier: Tier | None = None
    """To which the turn that it carries on had come."""
    reasoning: bool | None = None
    """What the user wants of models that can think: to do it, or not to."""
    confinement: Confinement | None = None
    """What confines the commands of its tools, as it was found out. Null: it was not recorded."""


class StepStarted(Fact, frozen=True, kw_only=True, tag="step.started"):
    index: int
    tools_offered: bool = True
    mode: str = "build"
    next_mode: str = ""
    """The mode that follows once this one is over."""
    segments: dict[str, str] = {}
    """Hashes of what is sent: each section of the system prompt by its name, `tools`, and `history`."""
    prefix_chars: int = 0
    """Characters of what stands before the history: with what is reported, it tells how many make a token."""


class AttemptStarted(Fact, frozen=True, kw_only=True, tag="attempt.started"):
    attempt: int
    route: str
    stream: bool = True
    purpose: str = "turn"
    idempotency: Idempotency = "repeatable"
    reserved_tokens: int = 0
    reserved_usd: float | None = None
    """The most that it may spend, by its estimate. If it has no end, that counts as spent."""
    window: int | None = None
    """What is known of the model at that moment, as are the next two: decisions rest on it."""
    max_output: int | None = None
    price: Price | None = None
    reasoning: bool | None = None
    """The model was asked to think, or not to."""


class AttemptFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong on the wire."""

    message: str
    kind: ErrorKind | None = None
    status: int | None = None
    code: str = ""
    excerpt: str = ""
    stall: StallReason | None = None
    retry_after_s: float | None = None
    overflow: bool = False
    """The conversation did not fit the model's window."""
    no_tools: bool = False
    """The model, or the server as it was started, takes no tools in its own way."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Milliseconds. Absent, not 0, where nothing came."""

    total_ms: float
    ttft_ms: float | None = None
    decode_ms: float | None = None
    longest_gap_ms: float | None = None
    """Between two arrivals, the wait for the first one left out."""


class AttemptEnded(Fact, frozen=True, kw_only=True, tag="attempt.ended"):
    attempt: int
    route: str
    verdict: Verdict
    timing: Timing
    finish_raw: str | None = None
    finish: FinishClass | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_estimated: bool = False
    """Reckoned from the route's price: the provider named none."""
    fault: AttemptFault | None = None
    request_id: str = ""
    model: str = ""
    repairs: tuple[str, ...] = ()
    """What was put right in the reply before it was acted upon."""
    bytes_in: int = 0
    replaced: int = 0
    """Sequences of the reply that are no UTF-8, and were replaced."""
    partial_text: str = ""
    """Text that had already arrived when the attempt failed."""
    purpose: str = "turn"
    capture: BlobRef | None = None
    """Request and response as they were on the wire, redacted; `turnwright wire replay` plays it again."""


class ModelReplied(Fact, frozen=True, kw_only=True, tag="model.replied"):
    visibility: ClassVar[Visibility] = "model"

    message: AssistantMessage
    verdict: Verdict


class ToolStarted(Fact, frozen=True, kw_only=True, tag="tool.started"):
    name: str
    arguments: str
    effect: Effect
    idempotency: Idempotency


class ToolEnded(Fact, frozen=True, kw_only=True, tag="tool.ended"):
    """`outcome` is `refused` where the call was never executed (bad arguments, unknown tool, a denial)."""

    visibility: ClassVar[Visibility] = "model"

    name: str
    outcome: Literal["ok", "failed", "timeout", "interrupted", "unknown", "refused"]
    output: str = ""
    output_blob: BlobRef | None = None
    """Where `output` is stored when it is large; then `output` is empty."""
    images: tuple[Image, ...] = ()
    duration_ms: float = 0.0
    original_bytes: int | None = None
    """Size of the output before it was shortened for the model."""
    detail: dict[str, str | int | float | bool | None] = {}
    """Evidence by the tool: exit_code, sandbox, sha256 before and after, path of the full output."""


class ApprovalAsked(Fact, frozen=True, kw_only=True, tag="approval.asked"):
    approval_id: str
    question: str
    choices: tuple[str, ...] = ()
    tool: str = ""
    segment: str = ""
    """The piece of the call that it is about: one command of a line, a path."""
    rule: str = ""
    """The rule, or the level of autonomy, that asks."""


class ApprovalAnswered(Fact, frozen=True, kw_only=True, tag="approval.answered"):
    visibility: ClassVar[Visibility] = "audit"

    approval_id: str
    answer: str
    by: Literal["user", "rule", "nobody"]
    segment: str = ""
    rule: str = ""
    """As they were asked about."""


class GuardTripped(Fact, frozen=True, kw_only=True, tag="guard.tripped"):
    guard: str
    verdict: Literal["warn", "block", "truncate", "force_answer", "ask", "stop"]
    why: str
    said: RuntimeMessage | None = None
    """What was said to the model about it, in the runtime's own name."""
    evidence: dict[str, str | int | float | bool | None] = {}
    reason: StopReason | None = None
    """Why the turn ends, where the guard stops it."""
    text: str = ""
    """What the user is told in place of an answer, in the runtime's own name, where the guard stops the turn."""


class InboxAdmitted(Fact, frozen=True, kw_only=True, tag="inbox.admitted"):
    inbox_id: str
    text: str
    kind: Literal["steer", "queue"]


class InboxWithdrawn(Fact, frozen=True, kw_only=True, tag="inbox.withdrawn"):
    inbox_id: str


class SteeringDelivered(Fact, frozen=True, kw_only=True, tag="steering.delivered"):
    visibility: ClassVar[Visibility] = "model"

    text: str
    inbox_ids: tuple[str, ...]


class ModeChanged(Fact, frozen=True, kw_only=True, tag="mode.changed"):
    """From the next step on other tools are offered."""

    before: str
    after: str
    reason: str
    said: RuntimeMessage | None = None
    """What was said to the model about it, in the runtime's own name."""


class RouteSwitched(Fact, frozen=True, kw_only=True, tag="route.switched"):
    before: str
    after: str
    reason: str


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What calls that are no longer shown have done, as far as it can be read off them. Paths, oldest first."""

    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    """Changed since a command last succeeded."""
    plan: str = ""
    """The list of things to do, as it was last shown to the model."""


class TurnSoFar(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn in the middle of which its own beginning was compacted: who opens the conversation does not read it."""

    mode: str = "build"
    course: Course = Course()
    mode_steps: int = 0
    """Taken in this mode."""
    mode_told: str = ""
    """The mode that was explained in the conversation itself."""
    task_class: TaskClass = "other"
    tiers: Tiers | None = None
    reasoning: bool | None = None
    tier: Tier | None = None
    tier_base: Tier | None = None
    """The tier that its request was given to at first."""
    tiers_off: bool = False
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    denials: int = 0
    warned: tuple[str, ...] = ()
    text: str = ""
    ending: StopReason | None = None
    """Its summary was asked for, for this reason."""
    ending_why: str = ""


class TaskSoFar(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task has spent of its budget, its subagents included, and the caps that hold for it."""

    spent_tokens: int = 0
    spent_usd: float = 0.0
    unmetered: bool = False
    unpriced: bool = False
    max_tokens: int | None = None
    max_cost_usd: float | None = None


class WaitingLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Admitted before a compaction, and delivered by nobody yet."""

    inbox_id: str
    text: str
    kind: Literal["steer", "queue"]


class ContextCompacted(Fact, frozen=True, kw_only=True, tag="context.compacted"):
    """From here on the model sees less. Whoever opens the conversation reads no more than what follows `through_seq`,
    hence all that is needed of what came before stands here."""

    visibility: ClassVar[Visibility] = "model"

    through_seq: Seq = 0
    """Everything up to it is replaced by `kept` and `digest`; 0 where nothing is."""
    from_step: StepId = ""
    """The first step that is still shown as it was."""
    digest: str = ""
    kept: tuple[Message, ...] = ()
    """What the user said before that step and is still shown word for word."""
    work: Work = Work()
    stubbed: tuple[CallId, ...] = ()
    """Calls whose output the model no longer sees. The journal keeps it."""
    why: Literal["threshold", "overflow", "asked"] = "overflow"
    """The window was nearly full, the provider refused the request, or the user asked for it."""
    helped: bool = True
    """Whether there is room again."""
    tokens_before: int | None = None
    tokens_after: int | None = None
    turn: TurnSoFar | None = None
    task: TaskSoFar | None = None
    waiting: tuple[WaitingLetter, ...] = ()
    route: str = ""
    """What the conversation was switched to, if it was."""
    subagents_sent: int = 0
    """By the conversation, ever."""


class WorkspaceSaved(Fact, frozen=True, kw_only=True, tag="workspace.saved"):
    tree: str
    files: int


class SubagentStarted(Fact, frozen=True, kw_only=True, tag="subagent.started"):
    """`call_id` is the call that sent it. On record before the conversation is opened."""

    conversation: ConversationId
    errand: Errand


class SubagentEnded(Fact, frozen=True, kw_only=True, tag="subagent.ended"):
    """What became of a subagent, its own subagents included."""

    conversation: ConversationId
    reason: StopReason | None = None
    """Why its turn ended; None where it has no end, because its process died."""
    detail: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    spent_tokens: int = 0
    spent_usd: float = 0.0
    """What counts against the budget: where a provider did not say, all that was reserved."""
    unmetered: bool = False
    unpriced: bool = False
    text: str = ""
    """The last thing it said: its answer, or where it ended early, as far as it came."""


class TurnEnded(Fact, frozen=True, kw_only=True, tag="turn.ended"):
    reason: StopReason
    detail: str = ""
    steps: int = 0
    usage: Usage = Usage()
    """Of its calls and of its subagents', as `cost_usd` is."""
    cost_usd: float | None = None
    context_size: int | None = None
    text: str = ""
    """The last thing said to the user."""


class Note(Fact, frozen=True, kw_only=True, tag="note"):
    """Something worth knowing that is not an act: a warning, a missing protection, a skipped row, or words of the
    runtime to the model (`said`): a wrap-up request, a notice of an interruption."""

    visibility: ClassVar[Visibility] = "audit"

    code: str
    text: str
    said: RuntimeMessage | None = None
    data: dict[str, str | int | float | bool | None] = {}
    attachment: BlobRef | None = None
    """What it is about, stored apart: the file that a conversation was imported from."""


KnownFact: TypeAlias = (
    ConversationOpened
    | TurnStarted
    | StepStarted
    | AttemptStarted
    | AttemptEnded
    | ModelReplied
    | ToolStarted
    | ToolEnded
    | ApprovalAsked
    | ApprovalAnswered
    | GuardTripped
    | InboxAdmitted
    | InboxWithdrawn
    | SteeringDelivered
    | ModeChanged
    | RouteSwitched
    | ContextCompacted
    | WorkspaceSaved
    | SubagentStarted
    | SubagentEnded
    | TurnEnded
    | Note
)


class Unknown(msgspec.Struct, frozen=True):
    """Written by a newer Turnwright. Kept byte for byte by whoever stored it, skipped by folds."""

    type: str


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact with its place in a conversation. `body` is what the journal keeps, byte for byte."""

    conversation_id: ConversationId
    seq: Seq
    at: int
    """UTC milliseconds, for display; order is `seq`."""
    fact: KnownFact | Unknown
    body: bytes
    schema_version: int = SCHEMA_VERSION


class _Tag(msgspec.Struct, frozen=True):
    type: str = ""


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[KnownFact] = msgspec.json.Decoder(KnownFact)
_tags = msgspec.json.Decoder(_Tag)

FACT_TYPES: dict[str, type[Fact]] = {str(kind.__struct_config__.tag): kind for kind in KnownFact.__args__}


def visibility_of(fact: Fact) -> Visibility:
    """By type, except that whatever carries words to the model is for the model."""
    if isinstance(fact, (GuardTripped, ModeChanged, Note)) and fact.said is not None:
        return "model"
    return fact.visibility


def refs_of(fact: Fact | Unknown) -> list[BlobRef]:
    """The payloads that a fact names."""
    return [ref for name in fact.__struct_fields__ if isinstance(ref := getattr(fact, name), BlobRef)]


_HEADS: dict[Visibility, bytes] = {one: b'{"visibility":"%b",' % one.encode() for one in get_args(Visibility)}


def encode_body(fact: Fact) -> bytes:
    """A fact without its place: `visibility`, `type` and its own fields."""
    return _HEADS[visibility_of(fact)] + _encoder.encode(fact)[1:]


def decode_body(body: bytes) -> KnownFact | Unknown:
    """Fields we do not know are ignored, types we do not know become Unknown; bytes that are not a fact raise
    msgspec.DecodeError."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        tag = _tags.decode(body).type
        if not tag or tag in FACT_TYPES:
            raise
        return Unknown(tag)


def encode_line(recorded: Recorded) -> bytes:
    """The one JSON object that every face shows for a recorded fact."""
    head = b'{"schema_version":%d,"conversation_id":"%b","seq":%d,"at":%d,' % (
        recorded.schema_version,
        recorded.conversation_id.encode(),
        recorded.seq,
        recorded.at,
    )
    return head + recorded.body[1:]


_HEAD = re.compile(rb'\{"schema_version":(\d+),"conversation_id":"([^"]*)","seq":(\d+),"at":(\d+),')


def decode_line(line: bytes) -> Recorded | None:
    """What `encode_line` wrote; None where it is the line of something else."""
    if (head := _HEAD.match(line)) is None:
        return None
    schema_version, conversation_id, seq, at = head.groups()
    body = b"{" + line[head.end() :]
    return Recorded(
        schema_version=int(schema_version),
        conversation_id=conversation_id.decode(),
        seq=int(seq),
        at=int(at),
        fact=decode_body(body),
        body=body,
    )
