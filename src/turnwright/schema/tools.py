"""What a tool call becomes before it runs and after it ran."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.messages import Image

Detail: TypeAlias = dict[str, str | int | float | bool | None]
"""Evidence by the tool, kept in `tool.ended`: exit_code, sha256_before, sha256_after, matcher."""


class Ready(msgspec.Struct, frozen=True):
    """A call whose arguments fit the tool's schema."""

    arguments: dict[str, Any]


class Unfit(msgspec.Struct, frozen=True):
    """Why a call must not be executed, worded for the model."""

    problem: str


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool has to show: its output and, if it failed, the error beside it."""

    output: str
    outcome: Literal["ok", "failed", "timeout"] = "ok"
    images: tuple[Image, ...] = ()
    original_bytes: int | None = None
    """Size of the output before it was shortened for the model."""
    detail: Detail = {}
