"""What a dialect is: a pure translation between our prompts and parts and one provider's JSON.

A codec knows no URL, key, clock or socket. `http_route` joins it with an endpoint, a credential and the wire's framing;
one codec then serves every host that speaks its dialect, and what those hosts do differently is data (`Quirks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from turnwright.schema.frames import Frame as Frame
from turnwright.schema.messages import Message
from turnwright.schema.parts import Part, StreamError
from turnwright.schema.prompt import Prompt
from turnwright.schema.settings import ReasoningField

Dialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]

Framing: TypeAlias = Literal["sse", "ndjson", "json-array"]

Messages: TypeAlias = bytes | bytearray
"""Encoded, joined by commas. Only to be read."""

State: TypeAlias = Any
"""Whatever a codec carries from frame to frame. Only the codec that began it looks inside."""


class Quirks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What hosts of one dialect do differently, as data. The defaults suit a plain OpenAI-compatible host."""

    system_role: Literal["system", "developer"] = "system"
    runtime_role: Literal["system", "user", "developer"] = "system"
    """Who a RuntimeMessage is said by, for hosts that refuse a system message in the middle of a conversation."""
    include_usage: bool = True
    """Send `stream_options.include_usage`; some hosts refuse the field."""
    max_tokens_key: str = "max_tokens"
    reasoning_field: ReasoningField = "reasoning_content"
    """Under which key a host's own reasoning goes back to it. All keys are read, whatever this says."""
    reasoning_replay: Literal["never", "with_calls", "always"] = "never"
    """Which of its assistant messages must carry their reasoning again when they are replayed."""
    parallel_tool_calls: bool | None = None
    """Say so in the request; None leaves the field out."""
    call_ids: Literal["any", "alnum9"] = "any"
    """`alnum9`: ids of calls are nine letters or digits, and others are refused (Mistral)."""
    tool_images: bool = False
    """Images may stand in a tool's result; otherwise they follow in a user message."""
    temperature: bool = True
    """False where the host refuses the field (reasoning models)."""
    default_max_output_tokens: int | None = None
    """For hosts that demand a limit (Anthropic)."""
    reasoning_on: dict[str, Any] | None = None
    """Fields with which a host is asked to let its model think. None: the dialect's own."""
    reasoning_off: dict[str, Any] | None = None
    """The same for not thinking, or as little as the host allows."""
    extra_body: dict[str, Any] = {}
    """Constant fields added to every request."""


def thinking(prompt: Prompt, quirks: Quirks, on: dict[str, Any], off: dict[str, Any]) -> dict[str, Any]:
    """The fields that say whether the model is to think; `on` and `off` are the dialect's own."""
    match prompt.reasoning:
        case True:
            return on if quirks.reasoning_on is None else quirks.reasoning_on
        case False:
            return off if quirks.reasoning_off is None else quirks.reasoning_off
        case None:
            return {}


class Codec(Protocol):
    """Implementations are stateless: everything of one reply is in the state that `begin` makes."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def framing(self) -> Framing:
        """How a stream of this dialect is framed, where its Content-Type does not say otherwise."""
        ...

    def path(self, model: str, stream: bool) -> str:
        """Below the base URL, with its query if any: `/chat/completions`."""
        ...

    def headers(self, quirks: Quirks) -> dict[str, str]:
        """Headers of the dialect itself (`anthropic-version`). Never credentials."""
        ...

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        """Zero or more JSON messages joined by `,`. Reasoning whose `message.route` is another than `route` is dropped.

        Must depend on nothing but its arguments: the bytes are kept and sent again with every later step (C2).
        """
        ...

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        """The request body. `messages` is what `encode_message` gave for all of `prompt.messages`, joined by `,`. They
        may be long: one join puts the body together, so that it is copied once."""
        ...

    def begin(self, stream: bool) -> State:
        """`stream` says what came, not what was asked: a body that is one JSON document is a single frame."""
        ...

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]: ...

    def end(self, state: State) -> Sequence[Part]:
        """What is left to say when the frames are over. Never invents a finish reason."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """What a status other than 2xx means. `body` may be anything, even HTML; header names are lower case."""
        ...
