"""OpenAI Responses, used without its memory: every request carries the whole conversation and nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.providers.codec import Dialect, Frame, Framing, Messages, Quirks, thinking
from turnwright.providers.error_bodies import error_in, error_of, odd_frame
from turnwright.providers.shapes import (
    count_of,
    data_url,
    json_text,
    lists_of_objects,
    marked,
    system_text,
    text_of,
    usage_of,
)
from turnwright.schema.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    RuntimeMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from turnwright.schema.parts import (
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
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.verdicts import ErrorKind, FinishClass

THINK: dict[str, Any] = {"reasoning": {"effort": "high"}}
THINK_LESS: dict[str, Any] = {"reasoning": {"effort": "low"}}
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done")


DELTAS = (
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.refusal.delta",
)

WHOLES = ("response.output_text.done", "response.refusal.done", "response.function_call_arguments.done")
"""Repeat what deltas said; from hosts that send no deltas, they are all there is."""

UNFINISHED: dict[str, ErrorKind] = {
    "failed": "server",
    "cancelled": "cancelled",
    "queued": "server",
    "in_progress": "server",
}
"""States of a response that is none, whatever it holds so far: one in the background is still being made."""


class _Event(msgspec.Struct):
    """An event of a stream, and a whole response as well: the type, or its absence, tells."""

    type: Any = None
    delta: Any = None
    output_index: Any = None
    content_index: Any = None
    item_id: Any = None
    item: Any = None
    response: Any = None
    arguments: Any = None
    text: Any = None
    refusal: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_loosely = msgspec.json.Decoder().decode


class State(msgspec.Struct, frozen=True):
    stream: bool
    running: tuple[object, object, object] = (None, None, None)
    """Type, item and piece of the last delta, so that thousands of the same cost one comparison each."""
    spoken: frozenset[tuple[str, int, object]] = frozenset()
    """Pieces whose text came in deltas; what an ending event repeats of them is not news."""
    items: dict[str, int] = {}
    """Indices of items by id, for hosts that leave the index out."""
    begun: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    called: bool = False


class OpenAIResponses:
    dialect: Dialect = "openai-responses"
    framing: Framing = "sse"

    def path(self, model: str, stream: bool) -> str:
        return "/responses"

    def headers(self, quirks: Quirks) -> dict[str, str]:
        return {}

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        return b",".join(msgspec.json.encode(item) for item in _items(message, route, quirks))

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        head: dict[str, Any] = {"model": model, "stream": stream, "store": False}
        if quirks.reasoning_replay != "never":
            head["include"] = ["reasoning.encrypted_content"]
        if limit := prompt.max_output_tokens or quirks.default_max_output_tokens:
            head["max_output_tokens"] = limit
        if prompt.temperature is not None and quirks.temperature:
            head["temperature"] = prompt.temperature
        if prompt.json_object:
            head["text"] = {"format": {"type": "json_object"}}
        if prompt.tools:
            head["tools"] = [_tool(tool) for tool in prompt.tools]
            if quirks.parallel_tool_calls is not None:
                head["parallel_tool_calls"] = quirks.parallel_tool_calls
        if system := system_text(prompt.system):
            head["instructions"] = system
        head |= thinking(prompt, quirks, THINK, THINK_LESS)
        head |= quirks.extra_body
        return b"".join((msgspec.json.encode(head)[:-1], b',"input":[', messages, b"]}"))

    def begin(self, stream: bool) -> State:
        return State(stream=stream)

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]:
        try:
            event = _decode(frame.data)
        except (msgspec.DecodeError, RecursionError):
            return state, odd_frame(frame.data, state.stream)
        if state.running == (event.type, event.output_index, event.content_index) and type(event.delta) is str:
            return state, _said_now(event.type, event.delta, event.output_index)
        return _read(state, event, frame.data)

    def end(self, state: State) -> Sequence[Part]:
        return ()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        return error_of(status, body)


def _read(state: State, event: _Event, data: bytes) -> tuple[State, Sequence[Part]]:
    index = _index(state, event)
    match event.type:
        case str(kind) if kind in DELTAS:
            return _read_delta(state, event, kind, index)
        case str(kind) if kind in WHOLES:
            return _read_whole(state, event, kind, index)
        case "response.output_item.added" if isinstance(event.item, dict):
            return _begun(state, index, event.item)
        case "response.output_item.done" if isinstance(event.item, dict):
            return _read_item(state, event.item, index)
        case "response.created" if isinstance(event.response, dict):
            return state, (_start(event.response),)
        case str(kind) if kind in TERMINAL and isinstance(event.response, dict):
            return _read_end(state, event.response)
        case str(kind) if kind.startswith("response.") or kind in ("ping", "keepalive"):
            return state, ()  # repeats, progress of server-side tools, kinds yet to be invented
        case _:
            return _read_document(state, data)


def _read_delta(state: State, event: _Event, kind: str, index: int) -> tuple[State, Sequence[Part]]:
    """The first of a run; `step` has a short way for those that follow."""
    state, begun = _begun(state, index, {})
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        state = _spoke(state, "text", index, event.content_index)
    elif kind == "response.function_call_arguments.delta":
        state = _spoke(state, "arguments", index, None)
    else:
        state = _spoke(state, "reasoning", index, None)
    if event.output_index == index:
        state = msgspec.structs.replace(state, running=(kind, index, event.content_index))
    return state, (*begun, *_said_now(kind, text_of(event.delta), index))


def _read_whole(state: State, event: _Event, kind: str, index: int) -> tuple[State, Sequence[Part]]:
    if kind == "response.function_call_arguments.done":
        if ("arguments", index, None) in state.spoken or not text_of(event.arguments):
            return state, ()
        return _spoke(state, "arguments", index, None), (ToolCallArguments(fragment=event.arguments, index=index),)
    said = text_of(event.text) if kind == "response.output_text.done" else text_of(event.refusal)
    if not said or _said(state, index, event.content_index):
        return state, ()
    state, begun = _begun(state, index, {})
    state = _spoke(state, "text", index, event.content_index)
    return state, (*begun, Refusal(said) if kind == "response.refusal.done" else Text(said))


def _said_now(kind: str, delta: str, index: int) -> Sequence[Part]:
    if not delta:
        return ()
    if kind == "response.output_text.delta":
        return (Text(delta),)
    if kind == "response.function_call_arguments.delta":
        return (ToolCallArguments(fragment=delta, index=index),)
    if kind == "response.refusal.delta":
        return (Refusal(delta),)
    return (ReasoningPart(delta, index),)


def _index(state: State, event: _Event) -> int:
    if type(event.output_index) is int:
        return event.output_index
    id_ = text_of(event.item_id) or (text_of(event.item.get("id")) if isinstance(event.item, dict) else "")
    last = len(state.items) if event.type == "response.output_item.added" else max(len(state.items) - 1, 0)
    return state.items.get(id_, last)


def _spoke(state: State, kind: str, index: int, piece: object) -> State:
    key = (kind, index, piece if isinstance(piece, int) else None)
    return state if key in state.spoken else msgspec.structs.replace(state, spoken=state.spoken | {key})


def _begun(state: State, index: int, item: dict[str, Any]) -> tuple[State, Sequence[Part]]:
    if index in state.begun:
        return state, ()
    items = {**state.items, text_of(item.get("id")) or f"#{index}": index}
    state = msgspec.structs.replace(state, begun=state.begun | {index}, items=items)
    if item.get("type") not in ("function_call", "custom_tool_call"):
        return state, ()
    id_, name = text_of(item.get("call_id")) or text_of(item.get("id")), text_of(item.get("name"))
    return msgspec.structs.replace(state, called=True), (ToolCallStart(index=index, id=id_, name=name),)


def _read_item(state: State, item: dict[str, Any], index: int) -> tuple[State, Sequence[Part]]:
    """A whole item: what its deltas have not said yet."""
    if index in state.ended:
        return state, ()
    state, begun = _begun(state, index, item)
    state = msgspec.structs.replace(state, ended=state.ended | {index})
    match item.get("type"):
        case "message":
            pieces = enumerate(lists_of_objects(item.get("content")))
            news = [part for at, piece in pieces if not _said(state, index, at) for part in _read_piece(piece)]
            return state, (*begun, *news)
        case "reasoning":
            text = "" if ("reasoning", index, None) in state.spoken else _reasoning_text(item)
            return state, (*begun, ReasoningPart(text, index, opaque=json_text(item)))
        case "function_call":
            arguments = item.get("arguments")
            whole = arguments if isinstance(arguments, str) or arguments is None else json_text(arguments)
            return state, (*begun, ToolCallEnd(index=index, arguments=whole or None))
        case "custom_tool_call":
            # Free text, kept inside an object as every other call's arguments are.
            whole = json_text({"input": text_of(item.get("input"))})
            return state, (*begun, ToolCallEnd(index=index, arguments=whole))
        case kind:
            return state, (*begun, Raw(text_of(kind), json_text(item)))


def _said(state: State, index: int, piece: object) -> bool:
    return ("text", index, piece) in state.spoken or ("text", index, None) in state.spoken


def _read_piece(piece: dict[str, Any]) -> Sequence[Part]:
    match piece:
        case {"type": "output_text" | "text", "text": str(text)}:
            return (Text(text),) if text else ()
        case {"type": "refusal", "refusal": str(text)}:
            return (Refusal(text),) if text else ()
        case _:
            return (Raw(text_of(piece.get("type")), json_text(piece)),)


def _reasoning_text(item: dict[str, Any]) -> str:
    pieces = lists_of_objects(item.get("summary")) + lists_of_objects(item.get("content"))
    return "".join(text_of(piece.get("text")) for piece in pieces)


def _start(response: dict[str, Any]) -> Start:
    return Start(model=text_of(response.get("model")), response_id=text_of(response.get("id")))


def _read_document(state: State, data: bytes) -> tuple[State, Sequence[Part]]:
    try:
        body = _decode_loosely(data)
    except (msgspec.DecodeError, RecursionError):  # the fields we read were well, others were not
        return state, odd_frame(data, state.stream)
    if isinstance(body, dict) and isinstance(body.get("output"), list):
        state, parts = _read_end(state, body)
        return state, (_start(body), *parts)
    return state, odd_frame(data, state.stream)


def _read_end(state: State, response: dict[str, Any]) -> tuple[State, Sequence[Part]]:
    parts: list[Part] = []
    for index, item in enumerate(lists_of_objects(response.get("output"))):
        # By id: what came before it in the stream need not stand before it here.
        state, more = _read_item(state, item, state.items.get(text_of(item.get("id")), index))
        parts.extend(more)
    parts.extend(_usage(response.get("usage")))
    if error := error_in(response):
        parts.append(error)
    if isinstance(status := response.get("status"), str) and status:
        details = response.get("incomplete_details")
        reason = text_of(details.get("reason")) if isinstance(details, dict) else ""
        finish = _finish(status, reason, state.called)
        if not error and (unfinished := UNFINISHED.get(status)):
            parts.append(StreamError(kind=unfinished, message=f"The provider ended the response as {status!r}."))
        parts.append(Finish(raw=f"{status}:{reason}" if reason else status, finish=finish))
    return state, (*parts, Done())


def _finish(status: str, reason: str, called: bool) -> FinishClass:
    match status, reason:
        case "completed", _:
            return "tool_calls" if called else "stop"
        case "failed", _:
            return "error"
        case "incomplete", "max_output_tokens" | "max_tokens":
            return "length"
        case "incomplete", "content_filter":
            return "content_filter"
        case _:
            return "other"


def _usage(usage: object) -> Sequence[Part]:
    if not isinstance(usage, dict):
        return ()
    into, out = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    into, out = into if isinstance(into, dict) else {}, out if isinstance(out, dict) else {}
    reported = Usage(
        input=count_of(usage.get("input_tokens")),
        output=count_of(usage.get("output_tokens")),
        cache_read=count_of(into.get("cached_tokens")),
        cache_write=count_of(into.get("cache_write_tokens")),
        reasoning=count_of(out.get("reasoning_tokens")),
    )
    if reported == Usage():
        return ()
    ticks = usage.get("cost_in_usd_ticks")  # xAI: ten thousand millionths of a dollar
    cost_usd = ticks / 1e10 if isinstance(ticks, int | float) and not isinstance(ticks, bool) else None
    normal = usage_of(reported, count_of(usage.get("total_tokens")))
    return (UsagePart(usage=normal, reported=reported, cost_usd=cost_usd),)


# What we say.


def _tool(tool: ToolSpec) -> dict[str, Any]:
    """Not strict: the dialect's default would refuse schemas with optional fields."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _items(message: Message, route: str, quirks: Quirks) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text, images=images):
            return [{"role": "user", "content": _content(text, images) if images else text}]
        case RuntimeMessage():
            said = marked(message) if quirks.runtime_role == "user" else message.text
            return [{"role": quirks.runtime_role, "content": said}]
        case AssistantMessage():
            return _assistant(message, route, quirks)
        case ToolResults(results=results):
            return _results(results, quirks)


def _content(text: str, images: Sequence[Image]) -> list[dict[str, Any]]:
    shown = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    return [{"type": "input_text", "text": text}, *shown] if text else shown


def _assistant(message: AssistantMessage, route: str, quirks: Quirks) -> list[dict[str, Any]]:
    wanted = quirks.reasoning_replay == "always" or (quirks.reasoning_replay == "with_calls" and message.calls)
    items: list[dict[str, Any]] = []
    if wanted and message.route == route and (message.text or message.calls):
        items += [item for thought in message.reasoning if (item := _thought(thought))]
    if message.text:
        items.append({"role": "assistant", "content": message.text})
    for call in message.calls:
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
    return items


def _thought(thought: Reasoning) -> dict[str, Any] | None:
    """A reasoning item as it came. One without its substance is only a name, and the server keeps nothing by name."""
    try:
        item = _decode_loosely(thought.opaque)
    except msgspec.DecodeError:
        return None
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return None
    return item if item.get("encrypted_content") or item.get("content") else None


def _results(results: Sequence[ToolResult], quirks: Quirks) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        inside = bool(result.images) and quirks.tool_images
        output = _content(result.output, result.images) if inside else result.output
        said.append({"type": "function_call_output", "call_id": result.call_id, "output": output})
        if result.images and not inside:
            notice = RuntimeMessage(
                code="tool-images", text=f"Images from the result of {result.name} ({result.call_id}):"
            )
            shown.append({"role": "user", "content": _content(marked(notice), result.images)})
    return said + shown
