"""Parts into a reply (P9). Fragments wait in lists and are joined once, so a reply costs what its length costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import assert_never

import msgspec

from turnwright.schema.ids import CallId, ConversationId, StepId, TurnId
from turnwright.schema.live import LiveEvent, ReasoningDelta, TextDelta, ToolArgsDelta
from turnwright.schema.messages import AssistantMessage, Reasoning, ToolCall
from turnwright.schema.parts import (
    FOREIGN,
    UNREADABLE,
    Closed,
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Refusal,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)
from turnwright.schema.verdicts import FinishClass

UNREADABLE_MAX = 8

NAMELESS = "unnamed"
"""Stands in a history for a name that never came: strict hosts refuse an empty one when it is sent back."""
CUT_AT_LIMIT = "The reply was cut at the output limit, so this call may be incomplete; it was not run."


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt said. What it is worth is the verdict's business (kernel/verdict.py)."""

    message: AssistantMessage
    finish_raw: str | None = None
    """As on the wire; None where the provider gave no word for it."""
    finish: FinishClass | None = None
    is_broken_call: bool = False
    """The provider could not make out a call that the model began."""
    usage: Usage | None = None
    reported: Usage | None = None
    cost_usd: float | None = None
    error: StreamError | None = None
    refusal: str = ""
    done: bool = False
    """A terminal frame came."""
    model: str = ""
    response_id: str = ""
    others: tuple[Raw, ...] = ()
    unreadable: tuple[Raw, ...] = ()
    """Evidence: the first frames that were not what the dialect says."""
    has_content: bool = False
    """Something of the answer had come: text, reasoning, a refusal, a call or another piece."""


class _Thought:
    __slots__ = ("opaque", "signature", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.signature: list[str] = []
        self.opaque: list[str] = []

    def closed(self) -> Reasoning:
        return Reasoning(text="".join(self.text), signature="".join(self.signature), opaque="".join(self.opaque))


class _Call:
    __slots__ = ("fragments", "id", "index", "name", "open", "signature", "wire_id")

    def __init__(self, index: int | None, wire_id: str) -> None:
        self.index = index
        self.wire_id = wire_id
        self.id: CallId = ""
        """Ours to decide: the provider's if it is fit to be one, else our own."""
        self.name = ""
        self.signature = ""
        self.fragments: list[str] = []
        self.open = True


class Assembly:
    """Takes the parts of one attempt in order; `add` gives the live events they make, `reply` what was said."""

    def __init__(
        self,
        *,
        new_id: Callable[[], CallId],
        offered: Collection[str] = frozenset(),
        used_ids: Collection[CallId] = frozenset(),
        route: str = "",
        conversation_id: ConversationId = "",
        turn_id: TurnId | None = None,
        step_id: StepId | None = None,
    ) -> None:
        self._new_id = new_id
        self._offered = offered
        self._used_ids = used_ids
        self._route = route
        self._stamp = (conversation_id, turn_id, step_id)
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: dict[int, _Thought] = {}
        self._others: list[Raw] = []
        self._unreadable: list[Raw] = []
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._own_ids: set[CallId] = set()
        self._model = self._response_id = ""
        self._usage: Usage | None = None
        self._reported: Usage | None = None
        self._cost_usd: float | None = None
        self._finish: Finish | None = None
        self._error: StreamError | None = None
        self._done = False

    @property
    def has_content(self) -> bool:
        return bool(self._text or self._thoughts or self._calls or self._refusal or self._others)

    def add(self, parts: Sequence[Part]) -> list[LiveEvent]:
        """Neighbouring fragments of a batch make one live event."""
        events: list[LiveEvent] = []
        run: list[str] = []
        of: _Call | type[Part] | None = None
        for part in parts:
            what: _Call | type[Part]
            if type(part) is Text:
                what, fragment = Text, part.text
            elif type(part) is ReasoningPart:
                what, fragment = ReasoningPart, self._think(part)
            elif type(part) is ToolCallArguments:
                what = self._find(part.id, part.index) or self._open(part.index, part.id)
                fragment = part.fragment
            else:
                if run:
                    events.append(self._said(of, run))
                    run = []
                self._take(part, events)
                continue
            if run and what is not of:
                events.append(self._said(of, run))
                run = []
            of = what
            if fragment:
                run.append(fragment)
        if run:
            events.append(self._said(of, run))
        return events

    def _said(self, of: _Call | type[Part] | None, run: list[str]) -> LiveEvent:
        """Keeps a run of fragments of one text, thought or call, and says it once."""
        said = run[0] if len(run) == 1 else "".join(run)
        conversation_id, turn_id, step_id = self._stamp
        if of is Text:
            self._text.append(said)
            return TextDelta(conversation_id=conversation_id, turn_id=turn_id, step_id=step_id, text=said)
        if isinstance(of, _Call):
            of.fragments.append(said)
            return ToolArgsDelta(
                conversation_id=conversation_id,
                turn_id=turn_id,
                step_id=step_id,
                call_id=of.id or self._named(of),
                name=of.name,
                fragment=said,
            )
        return ReasoningDelta(conversation_id=conversation_id, turn_id=turn_id, step_id=step_id, text=said)

    def _think(self, part: ReasoningPart) -> str:
        thought = self._thoughts.get(part.block)
        if thought is None:
            thought = self._thoughts[part.block] = _Thought()
        if part.signature:
            thought.signature.append(part.signature)
        if part.opaque:
            thought.opaque.append(part.opaque)
        if part.text:
            thought.text.append(part.text)
        return part.text

    def _take(self, part: Part, events: list[LiveEvent]) -> None:
        match part:
            case ToolCallStart():
                self._start(part)
            case ToolCallEnd():
                self._end(part, events)
            case UsagePart():
                self._usage = _later(self._usage, part.usage)
                self._reported = _later(self._reported, part.reported)
                self._cost_usd = self._cost_usd if part.cost_usd is None else part.cost_usd
            case Start(model=model, response_id=response_id):
                self._model, self._response_id = model or self._model, response_id or self._response_id
            case Finish():
                self._finish = part
            case StreamError():
                self._error = self._error or part
            case Refusal(text=text):
                self._refusal.append(text)
            case Raw(kind=kind) if kind == UNREADABLE:
                if len(self._unreadable) < UNREADABLE_MAX:
                    self._unreadable.append(part)
            case Raw(kind=kind) if kind == FOREIGN:
                pass  # it says nothing that belongs to a reply
            case Raw():
                self._others.append(part)
            case Done():
                self._done = True
            case Closed():
                pass  # how the bytes ended is judged beside the reply, not in it
            case Text() | ReasoningPart() | ToolCallArguments():
                raise AssertionError("fragments are taken in runs")
            case _:
                assert_never(part)

    # Which call is meant: by id, then by index, then the last open one.

    def _find(self, wire_id: str, index: int | None) -> _Call | None:
        if wire_id and (call := self._by_id.get(wire_id)) is not None:
            return call
        if index is not None:
            return self._by_index.get(index)
        return self._calls[-1] if self._calls and self._calls[-1].open else None

    def _open(self, index: int | None, wire_id: str) -> _Call:
        call = _Call(index, wire_id)
        self._calls.append(call)
        if wire_id:
            earlier = self._by_id.get(wire_id)
            if earlier is not None and not earlier.id:
                self._named(earlier)  # who came first keeps the id
            self._by_id[wire_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _start(self, part: ToolCallStart) -> None:
        call = self._find(part.id, part.index)
        if call is None or not self._continues(call, part):
            call = self._open(part.index, part.id)
        elif part.id and not call.wire_id:
            call.wire_id = part.id
            self._by_id[part.id] = call
        call.name = self._folded(call.name, part.name)
        call.signature = part.signature or call.signature

    def _continues(self, call: _Call, part: ToolCallStart) -> bool:
        """Is this start about that call, or another call under a number or an id that was used before?"""
        if not call.open:
            return False
        if part.index is not None and call.index is not None and part.index != call.index:
            return False
        if part.id and call.wire_id and part.id != call.wire_id:
            return False
        if part.id and call.wire_id:
            return True
        # Without an id to tell: two whole names under one number are two calls, pieces of a name are one.
        return part.name not in self._offered or call.name not in self._offered or part.name == call.name

    def _folded(self, name: str, more: str) -> str:
        """Some providers repeat the name with every piece, some send it in pieces, some grow it."""
        if not more or more == name:
            return name
        if not name or more.startswith(name):
            return more
        whole = name in self._offered
        if whole and not any(offered.startswith(name + more) for offered in self._offered):
            return name
        return name + more

    def _end(self, part: ToolCallEnd, events: list[LiveEvent]) -> None:
        call = self._find(part.id, part.index)
        if call is None:
            if not part.arguments:
                return
            call = self._open(part.index, part.id)
        if part.arguments:
            if call.fragments:
                call.fragments = [part.arguments]
            else:
                events.append(self._said(call, [part.arguments]))
        call.open = False

    def _named(self, call: _Call) -> CallId:
        """Ids must be unique in a conversation, whatever providers do: results are matched by them."""
        wire_id = call.wire_id
        fit = wire_id and wire_id not in self._own_ids and wire_id not in self._used_ids
        call.id = wire_id if fit else self._new_id()
        self._own_ids.add(call.id)
        return call.id

    def finished_calls(self, already: int) -> list[ToolCall]:
        """Calls beyond the first `already` that the provider has closed, in order, up to the first still open: what
        may start before the reply is whole (`dispatch.eager`)."""
        finished: list[ToolCall] = []
        for call in self._calls[already:]:
            if call.open:
                break
            finished.append(self._judged(call, cut=False))
        return finished

    def reply(self) -> Reply:
        """Everything so far. Calls are judged here, at the end of the stream, and nowhere earlier."""
        finish = self._finish
        cut = finish is not None and finish.finish == "length"
        return Reply(
            message=AssistantMessage(
                text="".join(self._text),
                reasoning=tuple(thought.closed() for thought in self._thoughts.values()),
                calls=tuple(self._judged(call, cut) for call in self._calls),
                route=self._route,
            ),
            finish_raw=(finish.raw or None) if finish else None,
            finish=finish.finish if finish else None,
            is_broken_call=finish is not None and finish.is_broken_call,
            usage=self._usage,
            reported=self._reported,
            cost_usd=self._cost_usd,
            error=self._error,
            refusal="".join(self._refusal),
            done=self._done,
            model=self._model,
            response_id=self._response_id,
            others=tuple(self._others),
            unreadable=tuple(self._unreadable),
            has_content=self.has_content,
        )

    def _judged(self, call: _Call, cut: bool) -> ToolCall:
        sent = "".join(call.fragments)
        problem = problem_of(sent)
        named = problem or ("" if call.name else "The call names no tool.")
        return ToolCall(
            id=call.id or self._named(call),
            name=call.name or NAMELESS,
            arguments="{}" if problem or not sent.strip() else sent,
            raw=sent if problem else "",
            problem=CUT_AT_LIMIT if cut else named,
            signature=call.signature,
        )


def problem_of(arguments: str) -> str:
    """Why this text cannot be a call's arguments; empty when it can. Nothing at all means no arguments."""
    if not arguments.strip():
        return ""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError as bad:
        return f"The arguments are not valid JSON: {bad}."
    except RecursionError:
        return "The arguments are nested too deeply."
    return "" if isinstance(value, dict) else "The arguments must be a JSON object."


def _later(before: Usage | None, after: Usage) -> Usage:
    """The last value that was given, field by field."""
    if before is None:
        return after
    return Usage(
        input=before.input if after.input is None else after.input,
        output=before.output if after.output is None else after.output,
        cache_read=before.cache_read if after.cache_read is None else after.cache_read,
        cache_write=before.cache_write if after.cache_write is None else after.cache_write,
        reasoning=before.reasoning if after.reasoning is None else after.reasoning,
    )
