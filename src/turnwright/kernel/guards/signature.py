"""What makes two calls the same: tool, arguments and result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from turnwright.schema.facts import ToolEnded
from turnwright.schema.ids import CallId
from turnwright.schema.messages import ToolCall


class Asked(msgspec.Struct, frozen=True):
    """Tool and arguments, whatever the order of the keys and the spaces between them."""

    name: str
    arguments: str


class Signature(msgspec.Struct, frozen=True):
    asked: Asked
    result: str


def asked_of(call: ToolCall) -> Asked:
    try:
        arguments = msgspec.json.decode(call.raw or call.arguments)
    except msgspec.DecodeError:
        return Asked(call.name, call.raw or call.arguments)
    return Asked(call.name, msgspec.json.encode(arguments, order="deterministic").decode())


def result_of(ended: ToolEnded) -> str:
    """How it ended, and a hash of what came back; what is stored apart has the same one already."""
    blob = ended.output_blob
    sha256 = blob.sha256 if blob is not None else hashlib.sha256(ended.output.encode()).hexdigest()
    return f"{ended.outcome}:{sha256[:16]}"


class Calls:
    """The calls of the reply that is being acted on."""

    def __init__(self) -> None:
        self._asked: dict[CallId, Asked] = {}

    def take(self, calls: Sequence[ToolCall]) -> None:
        self._asked = {call.id: asked_of(call) for call in calls}

    def asked(self, call_id: CallId) -> Asked | None:
        return self._asked.get(call_id)

    def of(self, ended: ToolEnded) -> Asked | None:
        return self._asked.get(ended.call_id or "")
