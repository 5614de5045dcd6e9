"""OpenAI Chat Completions and what speaks like it: read tolerantly, since every host speaks it a little differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from zlib import crc32

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
    RuntimeMessage,
    ToolCall,
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
from turnwright.schema.verdicts import FinishClass

FINISHES: dict[str, FinishClass] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "abort": "error",
}
"""Also what hosts hand through from the dialect behind them. vLLM says `abort` of a request that it gave up."""

BROKEN_CALLS = ("malformed_function_call", "unexpected_tool_call")
"""Inside what Gemini gives as a reason here: `function_call_filter: MALFORMED_FUNCTION_CALL`."""

THINK: dict[str, Any] = {"reasoning_effort": "high"}
THINK_LESS: dict[str, Any] = {"reasoning_effort": "low"}
_ABSENT = msgspec.Raw()


class _Function(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None
    input: Any = None


class _Call(msgspec.Struct, gc=False):
    index: Any = None
    id: Any = None
    function: _Function | None = None
    custom: _Function | None = None
    extra_content: Any = None


class _Words(msgspec.Struct, gc=False):
    """A delta or a whole message: the fields we read, typed no tighter than hosts keep to."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    audio: msgspec.Raw = _ABSENT
    images: msgspec.Raw = _ABSENT


class _Choice(msgspec.Struct, gc=False):
    index: Any = None
    delta: _Words | None = None
    message: _Words | None = None
    finish_reason: Any = None
    error: Any = None
    usage: Any = None
    """Where Moonshot puts it."""


class _Body(msgspec.Struct):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    x_groq: Any = None
    error: Any = None
    object: Any = None
    code: Any = None
    type: Any = None
    error_type: Any = None
    message: Any = None


_Nothing: TypeAlias = Literal[""] | tuple[()] | None
"""What hosts write where there is nothing."""


class _QuickWords(msgspec.Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: _Nothing = None
    refusal: _Nothing = None
    tool_calls: list[_Call] | None = None
    function_call: _Nothing = None
    audio: _Nothing = None
    images: _Nothing = None


class _QuickChoice(msgspec.Struct, gc=False):
    delta: _QuickWords
    finish_reason: _Nothing = None
    index: Literal[0] | None = None
    error: _Nothing = None
    usage: _Nothing = None


class _Quick(msgspec.Struct, gc=False):
    """A body that is one delta and nothing else: whatever says more does not decode as this. Nearly every frame of a
    stream does, and then the decoder has looked at all that would otherwise be looked at here, frame by frame."""

    choices: tuple[_QuickChoice]
    usage: _Nothing = None
    error: _Nothing = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_quickly = msgspec.json.Decoder(_Quick).decode
_decode_loosely = msgspec.json.Decoder().decode

_Details: TypeAlias = "tuple[_Details, dict[str, Any]] | None"
"""reasoning_details so far, newest first: a chain, so that keeping one more costs the same after thousands."""


class State(msgspec.Struct, frozen=True):
    stream: bool
    started: bool = False
    details: _Details = None


class OpenAIChat:
    dialect: Dialect = "openai-chat"
    framing: Framing = "sse"

    def path(self, model: str, stream: bool) -> str:
        return "/chat/completions"

    def headers(self, quirks: Quirks) -> dict[str, str]:
        return {}

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        return b",".join(msgspec.json.encode(one) for one in _messages(message, route, quirks))

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        """History comes last, so that the bytes of one step are a prefix of the next one's."""
        head: dict[str, Any] = {"model": model, "stream": stream}
        if stream and quirks.include_usage:
            head["stream_options"] = {"include_usage": True}
        limit = prompt.max_output_tokens or quirks.default_max_output_tokens
        if limit:
            head[quirks.max_tokens_key] = limit
        if prompt.temperature is not None and quirks.temperature:
            head["temperature"] = prompt.temperature
        if prompt.json_object:
            head["response_format"] = {"type": "json_object"}
        if prompt.tools:
            head["tools"] = [_tool(tool) for tool in prompt.tools]
            if quirks.parallel_tool_calls is not None:
                head["parallel_tool_calls"] = quirks.parallel_tool_calls
        head |= thinking(prompt, quirks, THINK, THINK_LESS)
        head |= quirks.extra_body
        system = system_text(prompt.system)
        said = msgspec.json.encode({"role": quirks.system_role, "content": system}) if system else b""
        comma = b"," if said and messages else b""
        # One join: history may be long, and every further step of putting it together would copy it once more.
        return b"".join((msgspec.json.encode(head)[:-1], b',"messages":[', said, comma, messages, b"]}"))

    def begin(self, stream: bool) -> State:
        return State(stream=stream)

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]:
        data = frame.data
        if state.started:
            try:
                part = _only_part(_decode_quickly(data))
            except (msgspec.DecodeError, RecursionError):
                part = None
            if part is not None:
                return state, (part,)
        try:
            body = _decode(data)
        except (msgspec.DecodeError, RecursionError):
            return state, odd_frame(data, state.stream)
        return _read(state, body)

    def end(self, state: State) -> Sequence[Part]:
        if state.details is None:
            return ()
        return (ReasoningPart(opaque=json_text(_merged(state.details))),)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        return error_of(status, body)


def _only_part(body: _Quick) -> Part | None:
    """The short way for a delta that is one fragment; None sends it the long way."""
    delta = body.choices[0].delta
    content, thought = delta.content, delta.reasoning_content or delta.reasoning
    if not delta.tool_calls:
        if not thought:
            return Text(content) if type(content) is str and content else None
        return ReasoningPart(thought) if type(thought) is str and not content else None
    call = delta.tool_calls[0]
    function = call.function
    if content or thought or call.id or function is None or function.name or len(delta.tool_calls) > 1:
        return None
    if type(function.arguments) is not str or not function.arguments or type(call.index) is not int:
        return None
    return ToolCallArguments(fragment=function.arguments, index=call.index)


def _read(state: State, body: _Body) -> tuple[State, Sequence[Part]]:
    parts: list[Part] = []
    if not state.started and (body.model or body.id):
        state = msgspec.structs.replace(state, started=True)
        parts.append(Start(model=text_of(body.model), response_id=text_of(body.id)))
    # Before the choices: a router that gives up says why beside a choice that only says that it did.
    error = _error(body) if body.error or body.object == "error" or body.type == "error" else None
    if error:
        parts.append(error)
    details, usage = state.details, body.usage
    for choice in body.choices or ():
        if choice.index:
            continue  # only the first choice is the reply
        words = choice.delta if state.stream and choice.delta is not None else choice.message or choice.delta
        if words is not None:
            details = _read_words(words, details, state.stream, parts)
        _read_finish(choice, error is not None, parts)
        usage = usage or choice.usage
    if details is not state.details:
        state = msgspec.structs.replace(state, details=details)
    usage = usage or (body.x_groq.get("usage") if isinstance(body.x_groq, dict) else None)
    if isinstance(usage, dict) and (part := _usage(usage)):
        parts.append(part)
    if not state.stream and not error:
        parts.append(Done())  # a document that parsed is whole: its end is the terminal frame
    return state, parts


def _error(body: _Body) -> StreamError | None:
    fields = {"object": body.object, "code": body.code, "type": body.type, "error_type": body.error_type}
    return error_in({"error": body.error, "message": body.message, **fields})


def _read_words(words: _Words, details: _Details, stream: bool, parts: list[Part]) -> _Details:
    plain = text_of(words.reasoning_content) or text_of(words.reasoning) or text_of(words.reasoning_text)
    said = plain
    for detail in lists_of_objects(words.reasoning_details):
        details = (details, detail)
        if not plain:
            said += text_of(detail.get("text")) or text_of(detail.get("summary"))
    if said:
        parts.append(ReasoningPart(said))
    content = words.content
    if isinstance(content, str):
        if content:
            parts.append(Text(content))
    else:
        for piece in lists_of_objects(content):
            parts.extend(_read_piece(piece))
    if words.refusal and isinstance(words.refusal, str):
        parts.append(Refusal(words.refusal))
    if words.function_call is not None:
        _read_call(_Call(index=0, function=words.function_call), 0, stream, parts)
    for position, call in enumerate(words.tool_calls or ()):
        _read_call(call, position, stream, parts)
    for kind, raw in (("audio", words.audio), ("images", words.images)):
        data = bytes(raw)
        if data and data not in (b"null", b"[]", b"{}") and not (kind == "audio" and b'"data":""' in data):
            parts.append(Raw(kind, data.decode("utf-8", "replace")))
    return details


def _read_piece(piece: dict[str, Any]) -> Sequence[Part]:
    """Content as a list of typed pieces (Mistral's thinking models, and OpenAI's own format for messages)."""
    match piece:
        case {"type": "text" | "output_text", "text": str(text)}:
            return (Text(text),) if text else ()
        case {"type": "refusal", "refusal": str(text)}:
            return (Refusal(text),) if text else ()
        case {"type": "thinking", "thinking": str(text)}:
            return (ReasoningPart(text),) if text else ()
        case {"type": "thinking", "thinking": list(thoughts)}:
            text = "".join(text_of(thought.get("text")) for thought in lists_of_objects(thoughts))
            return (ReasoningPart(text),) if text else ()
        case _:
            return (Raw(text_of(piece.get("type")), json_text(piece)),)


def _read_call(call: _Call, position: int, stream: bool, parts: list[Part]) -> None:
    function = call.function or call.custom or _Function()
    name, id_ = text_of(function.name), text_of(call.id)
    arguments = function.arguments if call.custom is None else function.input
    fragment = arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments)
    if call.custom is not None and fragment:
        fragment = json_text({"input": fragment})  # free text, kept inside an object as every other call's
    index = call.index if type(call.index) is int else None if stream else position
    if not (name or id_ or fragment):
        return
    if name or id_:
        parts.append(ToolCallStart(index=index, id=id_, name=name, signature=_signature(call.extra_content)))
    if fragment:
        parts.append(ToolCallArguments(fragment=fragment, index=index, id=id_))
    if not stream:
        parts.append(ToolCallEnd(index=index, id=id_))


def _signature(extra: object) -> str:
    """Gemini's thought signature, as its OpenAI-compatible endpoint carries it."""
    match extra:
        case {"google": {"thought_signature": str(signature)}}:
            return signature
        case _:
            return ""


def _read_finish(choice: _Choice, is_explained: bool, parts: list[Part]) -> None:
    error = error_in({"error": choice.error}) if choice.error else None
    if error:
        parts.append(error)
    raw = choice.finish_reason
    if isinstance(raw, str) and raw:
        finish = FINISHES.get(raw, FINISHES.get(raw.lower(), "other"))
        broken = finish == "other" and raw.lower().endswith(BROKEN_CALLS)
        parts.append(Finish(raw=raw, finish=finish, is_broken_call=broken))
        if finish == "error" and not error and not is_explained:
            parts.append(StreamError(kind="server", message=f"The provider ended the reply with {raw!r}.", code=raw))


def _usage(usage: dict[str, Any]) -> UsagePart | None:
    into = usage.get("prompt_tokens_details") or {}
    out = usage.get("completion_tokens_details") or {}
    into, out = into if isinstance(into, dict) else {}, out if isinstance(out, dict) else {}
    reported = Usage(
        input=count_of(usage.get("prompt_tokens")),
        output=count_of(usage.get("completion_tokens")),
        cache_read=_first(
            into.get("cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("num_cached_tokens"),
            usage.get("cached_tokens"),
            usage.get("cache_read_input_tokens"),
        ),
        cache_write=_first(
            into.get("cache_write_tokens"),
            into.get("cache_creation_tokens"),
            usage.get("cache_creation_input_tokens"),
        ),
        reasoning=_first(out.get("reasoning_tokens"), usage.get("reasoning_tokens")),
    )
    if reported == Usage():
        return None
    normal = usage_of(reported, count_of(usage.get("total_tokens")))
    return UsagePart(usage=normal, reported=reported, cost_usd=_cost_usd(usage))


def _first(*values: object) -> int | None:
    for value in values:
        if value is not None and (count := count_of(value)) is not None:
            return count
    return None


def _cost_usd(usage: dict[str, Any]) -> float | None:
    cost = usage.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        return float(cost)
    ticks = usage.get("cost_in_usd_ticks")  # xAI: ten thousand millionths of a dollar
    return ticks / 1e10 if isinstance(ticks, int | float) and not isinstance(ticks, bool) else None


def _merged(details: _Details) -> list[dict[str, Any]]:
    """The pieces of a stream joined to the items they are pieces of, in the order they came."""
    pieces: list[dict[str, Any]] = []
    while details is not None:
        details, piece = details
        pieces.append(piece)
    items: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
    for piece in reversed(pieces):
        if not items or not _same_item(items[-1][0], piece):
            items.append(({}, {}))
        item, texts = items[-1]
        for key, value in piece.items():
            if key in ("text", "summary", "data", "signature") and isinstance(value, str):
                texts.setdefault(key, []).append(value)
                item.setdefault(key, "")
            elif value is not None or key not in item:
                item[key] = value
    return [item | {key: "".join(values) for key, values in texts.items()} for item, texts in items]


def _same_item(item: dict[str, Any], piece: dict[str, Any]) -> bool:
    same_id = not item.get("id") or not piece.get("id") or item["id"] == piece["id"]
    return same_id and item.get("type") == piece.get("type") and item.get("index") == piece.get("index")


# What we say.


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(message: Message, route: str, quirks: Quirks) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text, images=images):
            return [{"role": "user", "content": _content(text, images)}]
        case RuntimeMessage():
            said = marked(message) if quirks.runtime_role == "user" else message.text
            return [{"role": quirks.runtime_role, "content": said}]
        case AssistantMessage():
            return [_assistant(message, route, quirks)]
        case ToolResults(results=results):
            return _results(results, quirks)


def _content(text: str, images: Sequence[Image]) -> str | list[dict[str, Any]]:
    if not images:
        return text
    shown = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return [{"type": "text", "text": text}, *shown] if text else shown


def _assistant(message: AssistantMessage, route: str, quirks: Quirks) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
    wanted = quirks.reasoning_replay == "always" or (quirks.reasoning_replay == "with_calls" and message.calls)
    if wanted and message.reasoning and message.route == route:
        said |= _replayed(message, quirks.reasoning_field)
    if message.calls:
        said["tool_calls"] = [_call(call, message.route == route, quirks) for call in message.calls]
    return said


def _replayed(
    message: AssistantMessage, field: Literal["reasoning_content", "reasoning", "reasoning_details"]
) -> dict[str, Any]:
    text = "".join(thought.text for thought in message.reasoning)
    if field != "reasoning_details":
        return {field: text} if text else {}
    details: list[dict[str, Any]] = []
    for thought in message.reasoning:
        if thought.opaque:
            try:
                details.extend(lists_of_objects(_decode_loosely(thought.opaque)))
            except msgspec.DecodeError:
                continue  # left by a codec of another dialect under the same route name
    if details:
        return {"reasoning_details": details}
    return {"reasoning": text} if text else {}


def _call(call: ToolCall, own: bool, quirks: Quirks) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": _id(call.id, quirks),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if own and call.signature:
        said["extra_content"] = {"google": {"thought_signature": call.signature}}
    return said


def _results(results: Sequence[ToolResult], quirks: Quirks) -> list[dict[str, Any]]:
    """All results first: hosts refuse anything between a call and its result."""
    said: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        images = result.images if quirks.tool_images else ()
        said.append(
            {"role": "tool", "tool_call_id": _id(result.call_id, quirks), "content": _content(result.output, images)}
        )
        if result.images and not quirks.tool_images:
            notice = RuntimeMessage(
                code="tool-images", text=f"Images from the result of {result.name} ({result.call_id}):"
            )
            shown.append({"role": "user", "content": _content(marked(notice), result.images)})
    return said + shown


def _id(call_id: str, quirks: Quirks) -> str:
    """Mistral takes only ids of its own shape; another provider's becomes one, the same for a call and its result."""
    if quirks.call_ids == "any" or (len(call_id) == 9 and call_id.isascii() and call_id.isalnum()):
        return call_id
    return f"t{crc32(call_id.encode()):08x}"
