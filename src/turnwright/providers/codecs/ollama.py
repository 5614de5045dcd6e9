"""Ollama's native chat, one JSON object a line. Answers of `/api/generate` are read as well; we never ask there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.providers.codec import Dialect, Frame, Framing, Messages, Quirks, thinking
from turnwright.providers.error_bodies import error_of, odd_frame
from turnwright.providers.shapes import count_of, marked, merged, system_text, text_of
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
    ReasoningPart,
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

FINISHES: dict[str, FinishClass] = {"stop": "stop", "length": "length"}

_ABSENT = msgspec.Raw()


class _Function(msgspec.Struct):
    name: Any = None
    arguments: msgspec.Raw = _ABSENT


class _Call(msgspec.Struct):
    id: Any = None
    function: _Function | None = None


class _Words(msgspec.Struct):
    content: Any = None
    thinking: Any = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct):
    model: Any = None
    message: _Words | None = None
    response: Any = None
    thinking: Any = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Line).decode


class State(msgspec.Struct, frozen=True):
    stream: bool
    started: bool = False
    calls: int = 0


class Ollama:
    dialect: Dialect = "ollama"
    framing: Framing = "ndjson"

    def path(self, model: str, stream: bool) -> str:
        return "/api/chat"

    def headers(self, quirks: Quirks) -> dict[str, str]:
        return {}

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        return b",".join(msgspec.json.encode(one) for one in _messages(message, route, quirks))

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        head: dict[str, Any] = {"model": model, "stream": stream}
        options: dict[str, Any] = {}
        if limit := prompt.max_output_tokens or quirks.default_max_output_tokens:
            options["num_predict"] = limit
        if prompt.temperature is not None and quirks.temperature:
            options["temperature"] = prompt.temperature
        if options:
            head["options"] = options
        if prompt.json_object:
            head["format"] = "json"
        if prompt.tools:
            head["tools"] = [_tool(tool) for tool in prompt.tools]
        system = system_text(prompt.system)
        said = msgspec.json.encode({"role": "system", "content": system}) if system else b""
        comma = b"," if said and messages else b""
        head |= thinking(prompt, quirks, {"think": True}, {"think": False})
        head = merged(head, quirks.extra_body)
        return b"".join((msgspec.json.encode(head)[:-1], b',"messages":[', said, comma, messages, b"]}"))

    def begin(self, stream: bool) -> State:
        return State(stream=stream)

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]:
        try:
            line = _decode(frame.data)
        except (msgspec.DecodeError, RecursionError):
            return state, odd_frame(frame.data, state.stream)
        words = line.message
        if state.started and words is not None and words.tool_calls is None and not line.done and line.error is None:
            said, thought = words.content, words.thinking
            if said and not thought and type(said) is str:
                return state, (Text(said),)
            if thought and not said and type(thought) is str:
                return state, (ReasoningPart(thought),)
        return _read(state, line, frame.data)

    def end(self, state: State) -> Sequence[Part]:
        return ()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        return error_of(status, body)


def _read(state: State, line: _Line, data: bytes) -> tuple[State, Sequence[Part]]:
    parts: list[Part] = []
    if not state.started and line.model:
        state = msgspec.structs.replace(state, started=True)
        parts.append(Start(model=text_of(line.model)))
    words = line.message or _Words(content=line.response, thinking=line.thinking)
    if thought := text_of(words.thinking):
        parts.append(ReasoningPart(thought))
    if text := text_of(words.content):
        parts.append(Text(text))
    for index, call in enumerate(words.tool_calls or (), state.calls):
        function = call.function or _Function()
        arguments = bytes(function.arguments).decode("utf-8", "replace")
        if arguments.startswith('"'):
            arguments = _unwrapped(arguments)
        parts.append(ToolCallStart(index=index, id=text_of(call.id), name=text_of(function.name)))
        if arguments and arguments != "null":
            parts.append(ToolCallArguments(fragment=arguments, index=index, id=text_of(call.id)))
        parts.append(ToolCallEnd(index=index, id=text_of(call.id)))
    if words.tool_calls:
        state = msgspec.structs.replace(state, calls=state.calls + len(words.tool_calls))
    if line.error:
        parts.extend(odd_frame(data, state.stream))
    elif line.done is True:
        parts.extend(_ended(state, line))
    elif not state.stream:
        parts.append(Done())  # a document that parsed is whole
    return state, parts


def _unwrapped(arguments: str) -> str:
    """An object inside a string."""
    try:
        return text_of(msgspec.json.decode(arguments))
    except msgspec.DecodeError:
        return arguments


def _ended(state: State, line: _Line) -> Sequence[Part]:
    parts: list[Part] = []
    if raw := text_of(line.done_reason):
        finish = FINISHES.get(raw, "other")
        parts.append(Finish(raw=raw, finish="tool_calls" if finish == "stop" and state.calls else finish))
    usage = Usage(input=count_of(line.prompt_eval_count), output=count_of(line.eval_count))
    if usage != Usage():
        parts.append(UsagePart(usage=usage, reported=usage))
    return (*parts, Done())


# What we say.


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(message: Message, route: str, quirks: Quirks) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text, images=images):
            return [_spoken("user", text, images)]
        case RuntimeMessage():
            # Templates know no developer; whoever wants one means a voice above the user's.
            if quirks.runtime_role == "user":
                return [_spoken("user", marked(message))]
            return [_spoken("system", message.text)]
        case AssistantMessage():
            return [_assistant(message, route, quirks)]
        case ToolResults(results=results):
            return _results(results, quirks)


def _spoken(role: str, text: str, images: Sequence[Image] = ()) -> dict[str, Any]:
    said: dict[str, Any] = {"role": role, "content": text}
    if images:
        said["images"] = [image.data for image in images]
    return said


def _assistant(message: AssistantMessage, route: str, quirks: Quirks) -> dict[str, Any]:
    said = _spoken("assistant", message.text)
    wanted = quirks.reasoning_replay == "always" or (quirks.reasoning_replay == "with_calls" and message.calls)
    thought = "".join(thought.text for thought in message.reasoning)
    if wanted and thought and message.route == route:
        said["thinking"] = thought
    if message.calls:
        said["tool_calls"] = [_call(call) for call in message.calls]
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": call.name, "arguments": msgspec.Raw(call.arguments.encode())}}


def _results(results: Sequence[ToolResult], quirks: Quirks) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        images = result.images if quirks.tool_images else ()
        answer = _spoken("tool", result.output, images) | {"tool_name": result.name, "tool_call_id": result.call_id}
        said.append(answer)
        if result.images and not quirks.tool_images:
            notice = RuntimeMessage(
                code="tool-images", text=f"Images from the result of {result.name} ({result.call_id}):"
            )
            shown.append(_spoken("user", marked(notice), result.images))
    return said + shown
