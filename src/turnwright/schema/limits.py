"""Limits of a turn. Each has its own stop reason; impossible ones are refused before any call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec

from turnwright.schema.errors import ConfigError

_Group = TypeVar("_Group", bound=msgspec.Struct)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`loop.limits`. None is off. `max_steps` 0 is unlimited, allowed only beside another finite limit."""

    max_steps: int = 200
    """Model round trips in a turn. At the last one the model is asked for a summary without tools."""
    step_idle_s: float | None = 120.0
    """Seconds in a step in which nothing happens."""
    step_total_s: float | None = 600.0
    """Seconds that one step may take, its tools included."""
    turn_wall_s: float | None = None
    """Seconds that the whole turn may take."""
    max_tokens: int | None = None
    """Tokens, in and out, that a task may use: a turn, what carries it on, and all subagents."""
    max_cost_usd: float | None = None
    """What a task may cost, its subagents included. Needs a known price."""


class Retry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`loop.retry`. `attempts` is the one budget of a step across retry, reroute and stream fallback; None is 4 for
    `interactive`, and for `batch` as many as fit into eight hours of sleep."""

    preset: Literal["interactive", "batch"] = "interactive"
    """`interactive` gives up within 30 seconds; `batch` waits for hours."""
    attempts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """HTTP attempts that one step may make. Empty: what the preset says."""


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_concurrent`: 1 is sequential, 0 unbounded. `eager` starts reads while the reply still streams."""

    max_concurrent: Annotated[int, msgspec.Meta(ge=0)] = 4
    """Tools that run side by side: 1 is one after the other, 0 is no bound."""
    eager: bool = False
    """Whether a tool that only reads may start while the reply still streams."""
    recover_leaked: bool = False
    """Whether a call that a model has written into its text, where it made none, is made nevertheless: in the marks of
    its own template (`<tool_call>`, `[TOOL_CALLS]`), or as a JSON object at the end. Only of tools that are offered."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`loop.compaction`: what is done before a conversation outgrows its model's window. What the model no longer sees
    stays in the journal."""

    at_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.80
    """From this share of the window on, older parts are condensed. 1: only when the provider refuses a request."""
    keep_tokens: Annotated[int, msgspec.Meta(gt=0)] = 20_000
    """The newest part, which stays as it is; at most a quarter of the window."""
    apart_steps: Annotated[int, msgspec.Meta(ge=0)] = 5
    """So many steps lie between two compactions, unless a request is refused."""
    max_failures: Annotated[int, msgspec.Meta(gt=0)] = 3
    """After so many compactions in a row that failed or made no room, no further one is tried."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn runs by."""

    limits: Limits = Limits()
    retry: Retry = Retry()
    dispatch: Dispatch = Dispatch()
    compaction: Compaction = Compaction()


def recorded_rules(rules: Rules) -> dict[str, str | int | float | bool | None]:
    """For the record of a turn: flat, and with the defaults, which another version may have changed."""
    return {
        f"{group}.{name}": getattr(of, name)
        for group in rules.__struct_fields__
        for of in (getattr(rules, group),)
        for name in of.__struct_fields__
    }


def rules_of_record(recorded: Mapping[str, object]) -> Rules:
    """The same again. What is not said is as it is today; what this version does not know is left out."""

    def group(name: str, kind: type[_Group]) -> _Group:
        known = {
            field: recorded[f"{name}.{field}"] for field in kind.__struct_fields__ if f"{name}.{field}" in recorded
        }
        return msgspec.convert(known, kind)

    return Rules(
        limits=group("limits", Limits),
        retry=group("retry", Retry),
        dispatch=group("dispatch", Dispatch),
        compaction=group("compaction", Compaction),
    )


def check_limits(limits: Limits) -> Limits:
    """The same limits, or a ConfigError that names the key."""
    if limits.max_steps < 0:
        raise _impossible("max_steps", limits.max_steps, "Use 0 for unlimited, or a positive number.")
    for name in ("step_idle_s", "step_total_s", "turn_wall_s", "max_tokens", "max_cost_usd"):
        value = getattr(limits, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise _impossible(name, value, "Use a positive number, or leave it out to switch it off.")
    if limits.max_steps == 0 and limits.turn_wall_s is limits.max_tokens is limits.max_cost_usd is None:
        raise _impossible("max_steps", 0, "Unlimited steps need turn_wall_s, max_tokens or max_cost_usd beside them.")
    for soft, hard in (("step_idle_s", "step_total_s"), ("step_total_s", "turn_wall_s")):
        low, high = getattr(limits, soft), getattr(limits, hard)
        if low is not None and high is not None and low >= high and not _defaulted(limits, soft):
            raise _impossible(soft, low, f"It can never be reached before {hard} = {high:g}; lower it or leave it out.")
    return limits


def _defaulted(limits: Limits, name: str) -> bool:
    """A default that a tighter limit overtakes is no contradiction of the user's."""
    return bool(getattr(limits, name) == getattr(Limits(), name))


def _impossible(name: str, value: object, remedy: str) -> ConfigError:
    return ConfigError(f"loop.limits.{name} = {value} is impossible.", remedy=remedy)
