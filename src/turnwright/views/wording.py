"""How a transcript's entries are worded, whatever they are drawn with."""

from __future__ import annotations

from typing import assert_never

import msgspec

from turnwright.schema.facts import Errand
from turnwright.views.fold import Blob
from turnwright.views.text import Style, cost, count, duration, one_line, plural, size
from turnwright.views.transcript import Call, Changed, Condensed, Ended, Faulted, Guarded, Opened, Questioned


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """How much is shown. `reasoning` False shows only that there was some."""

    reasoning: bool = False
    output_chars: int = 2_000
    output_lines: int = 20
    argument_chars: int = 500
    text_chars: int = 100_000


SHORTENED = Detail()
EVERYTHING = Detail(
    reasoning=True,
    output_chars=10_000_000,
    output_lines=1_000_000,
    argument_chars=10_000_000,
    text_chars=10_000_000,
)


def call_said(call: Call) -> tuple[str, Style]:
    """What became of a call: its outcome, exit code and time."""
    parts = [_status(call)]
    exit_code = call.detail.get("exit_code")
    if isinstance(exit_code, int) and not isinstance(exit_code, bool) and exit_code != 0:
        parts.append(f"exit {exit_code}")
    if call.duration_ms is not None:
        parts.append(duration(call.duration_ms))
    if call.original_bytes is not None:
        parts.append(f"shortened from {size(call.original_bytes)}")
    if call.images:
        parts.append(plural(len(call.images), "image"))
    if call.subagent is not None:
        parts.append(subagent_said(call))
    return " · ".join(parts), _style(call)


def subagent_said(call: Call) -> str:
    """Which conversation it was, and what it took."""
    steps, spent = call.detail.get("steps"), call.detail.get("cost_usd")
    parts = [f"subagent {one_line(call.subagent or '')}"]
    if isinstance(steps, int):
        parts.append(plural(steps, "step"))
    if "cost_usd" in call.detail:
        parts.append(cost(spent if isinstance(spent, int | float) else None))
    return " · ".join(parts)


def _status(call: Call) -> str:
    match call.status:
        case "unknown":
            return "outcome unknown: it had started, and its end was not seen"
        case "not-started":
            return "not started"
        case "ok" | "failed" | "timeout" | "interrupted" | "refused" | "running":
            return call.status
        case _:
            assert_never(call.status)


def _style(call: Call) -> Style:
    match call.status:
        case "ok":
            return "good"
        case "running" | "not-started":
            return "dim"
        case "unknown" | "interrupted":
            return "warn"
        case "failed" | "timeout" | "refused":
            return "bad"
        case _:
            assert_never(call.status)


def output_of(call: Call, blob: Blob | None) -> str:
    """The output, from where it is stored; a payload that cannot be had is named, not left out."""
    if call.output_blob is None:
        return call.output
    payload = blob(call.output_blob.sha256) if blob is not None else None
    if payload is None:
        return f"[{call.output_blob.size_bytes:,} bytes stored apart: sha256 {call.output_blob.sha256}]"
    return payload.decode("utf-8", "replace")


def opened_said(entry: Opened) -> list[tuple[str, str]]:
    rows = [("workspace", entry.workspace), ("model", entry.model), ("turnwright", entry.turnwright)]
    if entry.title:
        rows.insert(0, ("title", entry.title))
    if entry.errand is not None:
        rows.append(("subagent of", entry.parent or "?"))
        rows += [("may spend", said)] if (said := errand_said(entry.errand)) else []
    elif entry.parent is not None:
        rows.append(("forked from", entry.parent if entry.forked_at is None else f"{entry.parent}:{entry.forked_at}"))
    return rows


def errand_said(errand: Errand) -> str:
    caps = []
    if errand.max_steps is not None:
        caps.append(plural(errand.max_steps, "step"))
    if errand.max_tokens is not None:
        caps.append(f"{count(errand.max_tokens)} tokens")
    if errand.max_cost_usd is not None:
        caps.append(cost(errand.max_cost_usd))
    return ", ".join(caps)


def fault_said(entry: Faulted) -> str:
    status = "" if entry.status is None else f", HTTP {entry.status}"
    purpose = "" if entry.purpose == "turn" else f" ({one_line(entry.purpose)})"
    message = f": {one_line(entry.message)}" if entry.message else ""
    return f"attempt {entry.attempt}{purpose} on {one_line(entry.route)} was {entry.verdict}{status}{message}"


def guard_said(entry: Guarded) -> str:
    return f"guard {one_line(entry.guard)}, {entry.verdict}: {one_line(entry.why)}"


def changed_said(entry: Changed) -> str:
    return f"{entry.what} {one_line(entry.before)} → {one_line(entry.after)}: {one_line(entry.reason)}"


def condensed_said(entry: Condensed) -> str:
    tokens = ""
    if entry.tokens_before is not None or entry.tokens_after is not None:
        tokens = f" ({count(entry.tokens_before)} → {count(entry.tokens_after)} tokens)"
    stubs = f"the output of {plural(entry.stubbed, 'call')}"
    if not entry.digest:
        return f"{stubs} no longer reaches the model{tokens}"
    also = f", and {stubs} no longer" if entry.stubbed else ""
    return f"everything through fact {entry.through_seq} now reaches the model as this digest{also}{tokens}"


def question_said(entry: Questioned) -> str:
    tool = f" ({one_line(entry.tool)})" if entry.tool else ""
    return f"question to the user{tool}"


def answer_said(entry: Questioned) -> str:
    if entry.answer is None:
        return "no answer yet"
    if entry.by == "nobody":
        return "nobody could answer, which is a denial"
    return f"answered by {one_line(entry.by)}: {one_line(entry.answer)}"


def ended_said(entry: Ended) -> str:
    parts = [entry.reason, plural(entry.steps, "step")]
    if entry.duration_ms is not None:
        parts.append(duration(entry.duration_ms))
    parts.append(f"{count(entry.usage.input)} in, {count(entry.usage.output)} out")
    parts.append(cost(entry.cost_usd))
    if entry.context_size is not None:
        parts.append(f"context {count(entry.context_size)}")
    if entry.detail:
        parts.append(one_line(entry.detail))
    return " · ".join(parts)
