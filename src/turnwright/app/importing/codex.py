"""Sessions of codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`.

A line is `{timestamp, type, payload}`; before September 2025 it was the bare item. Items of the model's own turn follow
each other until a tool's output or the user's words: together they are one reply. Events repeat what items say, but
only they tell which of the texts in the user's place are the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from turnwright.app.importing.events import (
    Announced,
    Answered,
    AnyEvent,
    Digested,
    Returned,
    Session,
    Stopped,
    Told,
    counted,
    millis,
)
from turnwright.schema.messages import AssistantMessage, Image, Reasoning, ToolCall
from turnwright.schema.parts import Usage

AGENT = "codex"
CONTEXT = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
    "# AGENTS.md instructions",
)
"""How texts begin that stand in the user's place and are the agent's own."""
_EXIT_CODE = re.compile(r"\A(?:.*\n){0,4}?(?:Exit code|Process exited with code):? (\d+)")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_RETOLD_ELSEWHERE = frozenset(
    {"user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "token_count", "turn_aborted"}
)


class Part(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    image_url: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """An output that is an object."""

    content: str = ""
    output: str = ""
    success: bool | None = None


class Metadata(msgspec.Struct, frozen=True):
    exit_code: int | None = None


class Wrapped(msgspec.Struct, frozen=True):
    """An output that is the text of an object."""

    output: str
    metadata: Metadata = Metadata()


class Tokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class TokenInfo(msgspec.Struct, frozen=True):
    last_token_usage: Tokens | None = None


class Item(msgspec.Struct, frozen=True):
    """Whatever a payload may be; what it is not stays empty."""

    type: str = ""
    role: str = ""
    content: str | list[Part] | None = None
    summary: str | list[Part] | None = None
    encrypted_content: str | None = None
    name: str = ""
    call_id: str | None = None
    id: str | None = None
    arguments: str = ""
    input: str = ""
    action: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | list[Part] | Outcome | None = None
    message: str = ""
    replacement_history: list[Item] | None = None
    info: TokenInfo | None = None
    cwd: str = ""
    model: str = ""
    cli_version: str = ""
    model_provider: str | None = None
    timestamp: str = ""


class Line(msgspec.Struct, frozen=True):
    timestamp: str = ""
    type: str = ""
    record_type: str = ""
    payload: Item | None = None


_lines = msgspec.json.Decoder(Line)
_items = msgspec.json.Decoder(Item)
_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")


def is_one(line: bytes) -> bool:
    """Whether a line says that its file is such a session. The bare first line of old ones has an id and its time."""
    try:
        found = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        kind = msgspec.json.decode(found.get("type", msgspec.Raw(b'""')))
    except msgspec.DecodeError:
        return False
    return (kind in _ENVELOPES and "payload" in found) or (not kind and {"id", "timestamp"} <= found.keys())


class _Read(msgspec.Struct, frozen=True):
    at: int
    kind: str
    item: Item


def read(lines: Iterable[bytes]) -> Session:
    found: list[_Read] = []
    left_out: list[str] = []
    raws = list(lines)
    for raw in raws:
        try:
            found.append(_one(raw))
        except msgspec.DecodeError:
            left_out.append("unreadable")
    left_out += [kind for one in found if (kind := _aside(one))]
    meta = next((one for one in found if one.kind == "session_meta"), None)
    contexts = [one.item for one in found if one.kind == "turn_context"]
    model = next((context.model for context in reversed(contexts) if context.model), "")
    provider = (meta.item.model_provider if meta else None) or "openai"
    return Session(
        agent=AGENT,
        version=meta.item.cli_version if meta else "",
        session_id=(meta.item.id or "") if meta else "",
        workspace=(meta.item.cwd if meta else "") or next((one.cwd for one in contexts if one.cwd), ""),
        model=f"{provider}/{model}" if model else "",
        title="",
        opened_at=(meta.at or millis(meta.item.timestamp)) if meta else next((one.at for one in found if one.at), 0),
        events=tuple(_with_usage(_events(found))),
        lines=len(raws),
        left_out=counted(left_out),
    )


def _one(raw: bytes) -> _Read:
    line = _lines.decode(raw)
    if line.type in _ENVELOPES and line.payload is not None:
        return _Read(millis(line.timestamp), line.type, line.payload)
    item = _items.decode(raw)
    if line.record_type:
        return _Read(0, "state", item)
    if not item.type:
        return _Read(millis(item.timestamp), "session_meta" if item.id else "", item)
    return _Read(millis(item.timestamp), "response_item", item)


def _aside(one: _Read) -> str:
    """What it is, where it is not retold; empty where it is."""
    match one.kind:
        case "session_meta" | "turn_context" | "compacted":
            return ""
        case "event_msg":
            return "" if one.item.type in _RETOLD_ELSEWHERE else f"event {one.item.type}"
        case "response_item":
            told = one.item.type in ("message", "reasoning", *_CALLS, *_OUTPUTS)
            return "" if told else f"item {one.item.type}"
        case _:
            return one.kind or "without a type"


def _events(found: list[_Read]) -> Iterator[AnyEvent | Usage]:
    """A Usage belongs to the reply before it."""
    own_words = {one.item.message for one in found if one.kind == "event_msg" and one.item.type == "user_message"}
    waiting: list[_Read] = []
    model = ""
    last_at = 0
    for one in found:
        if one.kind == "response_item" and _is_models(one.item):
            waiting.append(one)
            continue
        if one.kind == "event_msg" and one.item.type not in ("token_count", "turn_aborted"):
            continue
        if waiting:
            yield _answer(waiting, last_at, model)
            last_at, waiting = waiting[-1].at, []
        if one.kind == "turn_context":
            model = one.item.model or model
            continue
        yield from _other(one, own_words)
        last_at = one.at or last_at
    if waiting:
        yield _answer(waiting, last_at, model)


def _is_models(item: Item) -> bool:
    return item.type in ("reasoning", *_CALLS) or (item.type == "message" and item.role == "assistant")


def _other(one: _Read, own_words: set[str]) -> Iterator[AnyEvent | Usage]:
    item = one.item
    match one.kind, item.type:
        case "response_item", "message":
            text, images = _content(item.content)
            theirs = item.role == "user" and (text in own_words if own_words else not text.lstrip().startswith(CONTEXT))
            if theirs:
                yield Told(at=one.at, text=text, images=images)
            elif text:
                yield Announced(
                    at=one.at, code=f"imported-{'context' if item.role == 'user' else item.role}", text=text
                )
        case "response_item", kind if kind in _OUTPUTS:
            yield _returned(one)
        case "event_msg", "token_count" if item.info is not None and item.info.last_token_usage is not None:
            yield _usage(item.info.last_token_usage)
        case "event_msg", "turn_aborted":
            yield Stopped(at=one.at)
        case "compacted", _:
            said = item.message or next(
                (text for each in reversed(item.replacement_history or []) if (text := _content(each.content)[0])), ""
            )
            if said:
                yield Digested(at=one.at, text=said)
        case _:
            pass


def _answer(items: list[_Read], began_at: int, model: str) -> Answered:
    text: list[str] = []
    reasoning: list[Reasoning] = []
    calls: list[ToolCall] = []
    for item in (one.item for one in items):
        match item.type:
            case "message":
                text.append(_content(item.content)[0])
            case "reasoning":
                said = _content(item.summary)[0] or _content(item.content)[0]
                reasoning.append(Reasoning(text=said))
            case _:
                calls.append(_call(item))
    at = items[-1].at
    return Answered(
        at=at,
        began_at=min(began_at or at, at),
        message=AssistantMessage(text="\n\n".join(filter(None, text)), reasoning=tuple(reasoning), calls=tuple(calls)),
        model=model,
    )


def _call(item: Item) -> ToolCall:
    call_id = item.call_id or item.id or ""
    match item.type:
        case "function_call":
            if _is_object(item.arguments):
                return ToolCall(id=call_id, name=item.name, arguments=item.arguments)
            return ToolCall(
                id=call_id, name=item.name, arguments="{}", raw=item.arguments, problem="its arguments were no object"
            )
        case "custom_tool_call":
            return ToolCall(id=call_id, name=item.name, arguments=msgspec.json.encode({"input": item.input}).decode())
        case _:
            return ToolCall(id=call_id, name="local_shell", arguments=bytes(item.action).decode())


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _returned(one: _Read) -> Returned:
    images: tuple[Image, ...] = ()
    failed = False
    match one.item.output:
        case str() as text:
            output, failed = _unwrapped(text)
        case Outcome(content=content, output=inner, success=success):
            output, failed = content or inner, success is False
        case parts:
            output, images = _content(parts)
    return Returned(at=one.at, call_id=one.item.call_id or "", output=output, failed=failed, images=images)


def _unwrapped(text: str) -> tuple[str, bool]:
    """The output, and whether the command failed: early versions wrapped both in JSON, later ones say it in words."""
    try:
        wrapped = msgspec.json.decode(text, type=Wrapped)
    except msgspec.DecodeError:
        said = _EXIT_CODE.match(text)
        return text, said is not None and said[1] != "0"
    return wrapped.output, bool(wrapped.metadata.exit_code)


def _content(content: str | list[Part] | None) -> tuple[str, tuple[Image, ...]]:
    if isinstance(content, str) or content is None:
        return content or "", ()
    images = []
    for part in content:
        head, _, data = part.image_url.partition(";base64,")
        if data and head.startswith("data:"):
            images.append(Image(media_type=head.removeprefix("data:"), data=data))
    return "\n".join(part.text for part in content if part.text), tuple(images)


def _usage(found: Tokens) -> Usage:
    return Usage(
        input=found.input_tokens,
        output=found.output_tokens,
        cache_read=found.cached_input_tokens,
        reasoning=found.reasoning_output_tokens,
    )


def _with_usage(events: Iterable[AnyEvent | Usage]) -> Iterator[AnyEvent]:
    """Counted after a reply, and sometimes only after its tools have run."""
    told: list[AnyEvent] = []
    answer: int | None = None
    for event in events:
        if not isinstance(event, Usage):
            if isinstance(event, Answered):
                answer = len(told)
            told.append(event)
            continue
        if answer is not None:
            before = told[answer]
            assert isinstance(before, Answered), "the place of an answer"
            told[answer] = replace(before, usage=event)
            answer = None
    return iter(told)
