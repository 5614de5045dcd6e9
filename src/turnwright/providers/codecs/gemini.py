"""Google Gemini, developer API and Vertex.

The dialect has no voice for the runtime in the middle of a conversation, so a RuntimeMessage is a user turn whose text
is marked as the runtime's own, whatever the quirks say. Ids of calls stay at home: the order of results pairs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec

from turnwright.providers.codec import Dialect, Frame, Framing, Messages, Quirks, thinking
from turnwright.providers.error_bodies import error_of, odd_frame
from turnwright.providers.shapes import count_of, json_text, marked, merged, system_text, text_of
from turnwright.schema.messages import (
    AssistantMessage,
    Image,
    Message,
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
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}

BROKEN_CALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")

FOREIGN_CALL = "skip_thought_signature_validator"
"""What the provider documents for calls that another model made: without a signature it refuses them."""

THINK: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}}
THINK_LESS: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 512}}}
"""The least that all of its thinking models take; some cannot do without."""
_ABSENT = msgspec.Raw()


class _PartialArgument(msgspec.Struct):
    """A piece of a call's arguments, and where in them it belongs."""

    jsonPath: Any = None  # noqa: N815
    stringValue: Any = None  # noqa: N815
    numberValue: Any = None  # noqa: N815
    boolValue: Any = None  # noqa: N815
    willContinue: Any = None  # noqa: N815


class _Call(msgspec.Struct):
    name: Any = None
    id: Any = None
    args: msgspec.Raw = _ABSENT
    partialArgs: list[_PartialArgument] | None = None  # noqa: N815
    willContinue: Any = None  # noqa: N815


class _Piece(msgspec.Struct):
    text: Any = None
    thought: Any = None
    thoughtSignature: Any = None  # noqa: N815
    functionCall: _Call | None = None  # noqa: N815


class _Content(msgspec.Struct):
    parts: list[_Piece] | None = None


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finishReason: Any = None  # noqa: N815
    index: Any = None


class _Account(msgspec.Struct):
    promptTokenCount: Any = None  # noqa: N815
    candidatesTokenCount: Any = None  # noqa: N815
    cachedContentTokenCount: Any = None  # noqa: N815
    thoughtsTokenCount: Any = None  # noqa: N815
    toolUsePromptTokenCount: Any = None  # noqa: N815


class _Chunk(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    usageMetadata: _Account | None = None  # noqa: N815
    promptFeedback: Any = None  # noqa: N815
    modelVersion: Any = None  # noqa: N815
    responseId: Any = None  # noqa: N815
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_loosely = msgspec.json.Decoder().decode

_Told: TypeAlias = "tuple[_Told, _Account] | None"
"""Accounts so far, newest first. One comes with every chunk; they are read once, at the end."""


_Given: TypeAlias = "tuple[_Given, _PartialArgument] | None"
"""Pieces of the arguments of a call that comes in several parts, newest first."""


class State(msgspec.Struct, frozen=True):
    stream: bool
    started: bool = False
    calls: int = 0
    block: int = 0
    """The thought that is being said; a signature closes it."""
    told: _Told = None
    given: _Given = None
    is_calling: bool = False
    """The last call goes on: its arguments come in pieces (Vertex, where it was asked to stream them)."""


class Gemini:
    dialect: Dialect = "gemini"
    framing: Framing = "sse"

    def path(self, model: str, stream: bool) -> str:
        name = model.removeprefix("models/")
        return f"/models/{name}:streamGenerateContent?alt=sse" if stream else f"/models/{name}:generateContent"

    def headers(self, quirks: Quirks) -> dict[str, str]:
        return {}

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        role, parts = _parts(message, route, quirks)
        return msgspec.json.encode({"role": role, "parts": parts}) if parts else b""

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        head: dict[str, Any] = {}
        if prompt.tools:
            head["tools"] = [{"functionDeclarations": [_tool(tool) for tool in prompt.tools]}]
        if system := system_text(prompt.system):
            head["systemInstruction"] = {"parts": [{"text": system}]}
        config: dict[str, Any] = {}
        if limit := prompt.max_output_tokens or quirks.default_max_output_tokens:
            config["maxOutputTokens"] = limit
        if prompt.temperature is not None and quirks.temperature:
            config["temperature"] = prompt.temperature
        if prompt.json_object:
            config["responseMimeType"] = "application/json"
        if config:
            head["generationConfig"] = config
        head = merged(head, thinking(prompt, quirks, THINK, THINK_LESS))
        head = merged(head, quirks.extra_body)
        start = msgspec.json.encode(head)[:-1] + b"," if head else b"{"
        return b"".join((start, b'"contents":[', messages, b"]}"))

    def begin(self, stream: bool) -> State:
        return State(stream=stream)

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]:
        try:
            chunk = _decode(frame.data)
        except (msgspec.DecodeError, RecursionError):
            return state, odd_frame(frame.data, state.stream)
        if chunk.usageMetadata is not None:
            told = (state.told, chunk.usageMetadata)
            state = State(state.stream, state.started, state.calls, state.block, told, state.given, state.is_calling)
        if state.started and (piece := _only_words(chunk)) is not None:
            return state, (ReasoningPart(piece.text, state.block) if piece.thought else Text(piece.text),)
        return _read(state, chunk, frame.data)

    def end(self, state: State) -> Sequence[Part]:
        return _usage(state.told)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        return error_of(status, body)


def _only_words(chunk: _Chunk) -> _Piece | None:
    """The words or the thought of a chunk that holds nothing else."""
    if not chunk.candidates or len(chunk.candidates) != 1 or chunk.promptFeedback or chunk.error:
        return None
    candidate = chunk.candidates[0]
    pieces = candidate.content.parts if candidate.content is not None else None
    if candidate.index or candidate.finishReason or not pieces or len(pieces) != 1:
        return None
    piece = pieces[0]
    if type(piece.text) is not str or not piece.text or piece.thoughtSignature or piece.functionCall is not None:
        return None
    return piece


def _read(state: State, chunk: _Chunk, data: bytes) -> tuple[State, Sequence[Part]]:
    parts: list[Part] = []
    if not state.started and (chunk.modelVersion or chunk.responseId):
        state = msgspec.structs.replace(state, started=True)
        parts.append(Start(model=text_of(chunk.modelVersion), response_id=text_of(chunk.responseId)))
    for candidate in chunk.candidates or ():
        if not candidate.index:  # only the first candidate is the reply
            state = _read_candidate(state, candidate, data, parts)
    if isinstance(chunk.promptFeedback, dict) and chunk.promptFeedback.get("blockReason"):
        parts.append(Raw("promptFeedback", json_text(chunk.promptFeedback)))
        parts.append(Finish(raw="", finish="content_filter"))
    if chunk.error:
        parts.extend(odd_frame(data, state.stream))
    elif not state.stream:
        parts.append(Done())  # a document that parsed is whole
    return state, parts


def _read_candidate(state: State, candidate: _Candidate, data: bytes, parts: list[Part]) -> State:
    pieces = candidate.content.parts if candidate.content is not None else None
    for at, piece in enumerate(pieces or ()):
        state = _read_piece(state, piece, at, data, parts)
    raw = candidate.finishReason
    if isinstance(raw, str) and raw:
        finish = FINISHES.get(raw, "other")
        finish = "tool_calls" if finish == "stop" and state.calls else finish
        parts.append(Finish(raw=raw, finish=finish, is_broken_call=raw in BROKEN_CALLS))
    return state


def _read_piece(state: State, piece: _Piece, at: int, data: bytes, parts: list[Part]) -> State:
    signature = text_of(piece.thoughtSignature)
    if (call := piece.functionCall) is not None:
        if state.is_calling and not call.name:
            return _read_more(state, call, parts)
        if state.is_calling:
            state = _called(state, parts)
        if call.willContinue or call.partialArgs:
            start = ToolCallStart(index=state.calls, id=text_of(call.id), name=text_of(call.name), signature=signature)
            parts.append(start)
            return _read_more(msgspec.structs.replace(state, is_calling=True), call, parts)
        index, arguments = state.calls, bytes(call.args).decode("utf-8", "replace")
        id_ = text_of(call.id)
        parts.append(ToolCallStart(index=index, id=id_, name=text_of(call.name), signature=signature))
        if arguments and arguments != "null":
            parts.append(ToolCallArguments(fragment=arguments, index=index, id=id_))
        parts.append(ToolCallEnd(index=index, id=id_))
        return msgspec.structs.replace(state, calls=index + 1)
    if isinstance(piece.text, str):
        if piece.thought:
            parts.append(ReasoningPart(piece.text, state.block, signature))
        elif piece.text:
            parts.append(Text(piece.text))
        if signature and not piece.thought:
            parts.append(ReasoningPart(block=state.block, signature=signature))
    else:
        parts.extend(_other(data, at))
        signature = ""
    return msgspec.structs.replace(state, block=state.block + 1) if signature else state


def _read_more(state: State, call: _Call, parts: list[Part]) -> State:
    given = state.given
    for piece in call.partialArgs or ():
        given = (given, piece)
        if fragment := text_of(piece.stringValue):
            parts.append(ToolCallArguments(fragment=fragment, index=state.calls))
    state = msgspec.structs.replace(state, given=given)
    return state if call.willContinue else _called(state, parts)


def _called(state: State, parts: list[Part]) -> State:
    """The call is over. Arguments that cannot be put together stay the pieces they were, which are no JSON."""
    arguments = _put_together(state.given)
    parts.append(ToolCallEnd(index=state.calls, arguments=None if arguments is None else json_text(arguments)))
    return msgspec.structs.replace(state, calls=state.calls + 1, given=None, is_calling=False)


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


def _put_together(given: _Given) -> dict[str, Any] | None:
    pieces: list[_PartialArgument] = []
    while given is not None:
        given, piece = given
        pieces.append(piece)
    values: dict[str, tuple[list[str], Any]] = {}
    for piece in reversed(pieces):
        texts, _ = values.setdefault(text_of(piece.jsonPath), ([], None))
        if isinstance(piece.stringValue, str):
            texts.append(piece.stringValue)
            values[text_of(piece.jsonPath)] = texts, ""
        else:
            number = piece.numberValue
            whole = int(number) if isinstance(number, float) and number.is_integer() else number
            values[text_of(piece.jsonPath)] = texts, piece.boolValue if piece.boolValue is not None else whole
    arguments: dict[str, Any] = {}
    for path, (texts, value) in values.items():
        if not _put(arguments, path, "".join(texts) if texts else value):
            return None
    return arguments


def _put(arguments: dict[str, Any], path: str, value: Any) -> bool:
    """At a JSON path like `$.files[0].name`; False where there is no such place."""
    steps: list[str | int] = []
    at = 1
    while found := _STEP.match(path, at):
        steps.append(int(found[2]) if found[2] else found[1] or found[3] or found[4] or "")
        at = found.end()
    if not path.startswith("$") or at != len(path) or not steps:
        return False
    holder: Any = arguments
    for step, following in pairwise([*steps, ""]):
        last = len(steps) == 1
        steps = steps[1:]
        empty: Any = value if last else [] if isinstance(following, int) else {}
        if isinstance(holder, list) and isinstance(step, int) and step <= len(holder):
            if step == len(holder):
                holder.append(empty)
        elif isinstance(holder, dict) and isinstance(step, str):
            holder.setdefault(step, empty)
        else:
            return False
        holder = holder[step]
    return True


def _other(data: bytes, at: int) -> Sequence[Part]:
    """A piece of another kind (code, a picture, a server's tool), as it stands in the chunk."""
    try:
        chunk = _decode_loosely(data)
    except (msgspec.DecodeError, RecursionError):  # the fields we read were well, others were not
        return odd_frame(data, stream=True)
    match chunk:
        case {"candidates": [{"content": {"parts": list(pieces)}}, *_]} if at < len(pieces):
            known = ("thought", "thoughtSignature", "text", "functionCall", "partMetadata")
            kind = next((key for key in pieces[at] if key not in known), "")
            return (Raw(kind, json_text(pieces[at])),) if kind else ()
        case _:
            return ()


def _usage(told: _Told) -> Sequence[Part]:
    """The provider counts thoughts apart from output, and what its own tools read apart from input."""
    counts: dict[str, int] = {}
    while told is not None:
        told, account = told
        for name in account.__struct_fields__:
            if name not in counts and (count := count_of(getattr(account, name))) is not None:
                counts[name] = count
    reported = Usage(
        input=counts.get("promptTokenCount"),
        output=counts.get("candidatesTokenCount"),
        cache_read=counts.get("cachedContentTokenCount"),
        reasoning=counts.get("thoughtsTokenCount"),
    )
    if reported == Usage():
        return ()
    input_, output = reported.input, reported.output
    if input_ is not None:
        input_ += counts.get("toolUsePromptTokenCount", 0)
    if reported.reasoning is not None:
        output = (output or 0) + reported.reasoning
    return (UsagePart(usage=msgspec.structs.replace(reported, input=input_, output=output), reported=reported),)


# What we say.


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def _parts(message: Message, route: str, quirks: Quirks) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case UserMessage(text=text, images=images):
            return "user", [*_text(text), *map(_image, images)]
        case RuntimeMessage():
            return "user", _text(marked(message))
        case AssistantMessage():
            return "model", _said(message, route)
        case ToolResults(results=results):
            return "user", _results(results, quirks)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"text": text}] if text else []


def _image(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def _said(message: AssistantMessage, route: str) -> list[dict[str, Any]]:
    """Thoughts themselves are not wanted back, only their signatures, each beside what it was given with."""
    own = message.route == route
    parts = _text(message.text)
    signature = next((thought.signature for thought in reversed(message.reasoning) if thought.signature), "")
    if own and signature and parts:
        parts[0]["thoughtSignature"] = signature
    for at, call in enumerate(message.calls):
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": msgspec.Raw(call.arguments.encode())}}
        if own and call.signature:
            part["thoughtSignature"] = call.signature
        elif not own and at == 0:
            part["thoughtSignature"] = FOREIGN_CALL
        parts.append(part)
    return parts


def _results(results: Sequence[ToolResult], quirks: Quirks) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        response: dict[str, Any] = {"error" if result.is_error else "output": result.output}
        answer: dict[str, Any] = {"name": result.name, "response": response}
        if result.images and quirks.tool_images:
            answer["parts"] = [_image(image) for image in result.images]
        elif result.images:
            notice = RuntimeMessage(
                code="tool-images", text=f"Images from the result of {result.name} ({result.call_id}):"
            )
            shown += [*_text(marked(notice)), *map(_image, result.images)]
        answers.append({"functionResponse": answer})
    return answers + shown
