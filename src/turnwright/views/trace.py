"""The timeline as a tree in a terminal: what, when, how long, tokens, cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, assert_never

import msgspec

from turnwright.schema.parts import Usage
from turnwright.views.arguments import brief
from turnwright.views.faults import failed
from turnwright.views.text import (
    Line,
    Span,
    Style,
    clip,
    cost,
    count,
    duration,
    line,
    one_line,
    pad,
    plural,
    right,
    when,
    width,
)
from turnwright.views.timeline import AttemptSpan, Child, Mark, StepSpan, Timeline, ToolSpan, TurnSpan

GAP_SHOWN_MS = 100.0
"""A shorter wait is the loop's own work and would only be noise."""

_START, _TOOK, _TOKENS, _COST = 7, 7, 11, 8
_NUMBERS = _START + _TOOK + _TOKENS + _COST + 4
_BAR = 12


class _Row(msgspec.Struct, frozen=True):
    """One line of the tree before it is laid out."""

    label: str
    style: Style = "plain"
    start_ms: float | None = None
    took_ms: float | None = None
    running: bool = False
    usage: Usage | None = None
    cost: str = ""
    bar: Style | None = None


_Placed: TypeAlias = tuple[str, _Row]
"""A row and the branches drawn before it."""


def trace_lines(whole: Timeline, columns: int = 100) -> Iterator[Line]:
    columns = max(columns, 60)
    head = "  ".join(map(one_line, (whole.conversation_id, whole.model, whole.workspace)))
    yield line(Span(clip(head, columns).strip() or "(no conversation)", "heading"))
    if not whole.turns:
        yield line(Span("no turns yet", "dim"))
        return
    yield line(Span(_columns_head(columns), "dim"))
    for number, turn in enumerate(whole.turns, 1):
        scale_ms = _end_of(turn)
        for prefix, row in _turn_rows(turn, number):
            yield _laid_out(prefix, row, scale_ms, columns)


def _columns_head(columns: int) -> str:
    names = (right("start", _START), right("took", _TOOK), right("tokens", _TOKENS), right("cost", _COST))
    return " " * (columns - _NUMBERS) + "".join(f" {name}" for name in names)


def _laid_out(prefix: str, row: _Row, scale_ms: float, columns: int) -> Line:
    """Rows without times may use the whole width."""
    if row.start_ms is None:
        return line(Span(prefix, "dim"), Span(clip(row.label, columns - width(prefix)), row.style))
    label = pad(row.label, columns - _NUMBERS - _BAR - 1 - width(prefix))
    bar = _bar(row.start_ms, row.took_ms, scale_ms) if row.bar is not None else " " * _BAR
    took = "…" if row.running else "" if row.took_ms is None else duration(row.took_ms)
    numbers = (
        right(duration(row.start_ms), _START),
        right(took, _TOOK),
        right(_tokens(row.usage), _TOKENS),
        right(row.cost, _COST),
    )
    return line(
        Span(prefix, "dim"),
        Span(label, row.style),
        Span(f" {bar}", row.bar or "plain"),
        Span("".join(f" {number}" for number in numbers), "plain"),
    )


def _bar(start_ms: float, took_ms: float | None, scale_ms: float) -> str:
    if scale_ms <= 0:
        return " " * _BAR
    first = min(int(start_ms / scale_ms * _BAR), _BAR - 1)
    last = min(max(int((start_ms + (took_ms or 0.0)) / scale_ms * _BAR), first + 1), _BAR)
    mark = "▏" if (took_ms or 0.0) / scale_ms * _BAR < 0.25 else "█"
    return " " * first + mark * (last - first) + " " * (_BAR - last)


def _tokens(usage: Usage | None) -> str:
    return "" if usage is None else f"{count(usage.input)}→{count(usage.output)}"


def _turn_rows(turn: TurnSpan, number: int) -> Iterator[_Placed]:
    asked = "(continued)" if turn.continued else f"“{one_line(turn.text[:400])}”"
    yield "", _Row(f"turn {number}  {when(turn.started_at)}  {asked}", "heading")
    if turn.task_signals:
        yield "├─ ", _Row(f"task: {turn.task_class} ({one_line(', '.join(turn.task_signals))})", "dim")
    for child in turn.before:
        yield from _child_rows(child, "├─ ", "│  ")
    for step in turn.steps:
        yield from _step_rows(step)
    yield _end_row(turn)


def _end_row(turn: TurnSpan) -> _Placed:
    if turn.reason is None:
        return "└─ ", _Row("no end: it runs still, or was interrupted", "warn")
    context = "" if turn.context_size is None else f" · context {count(turn.context_size)}"
    ended = _Row(
        f"{turn.reason} · {plural(len(turn.steps), 'step')}{context}{_because(turn.detail)}",
        "good" if turn.reason == "stop" else "bad",
        start_ms=0.0,
        took_ms=turn.duration_ms,
        usage=turn.usage,
        cost=cost(turn.cost_usd),
    )
    return "└─ ", ended


def _because(detail: str) -> str:
    return f" · {one_line(detail[:400])}" if detail else ""


def _step_rows(step: StepSpan) -> Iterator[_Placed]:
    notes = "" if step.tools_offered else "  without tools"
    notes += "" if step.mode == "build" else f"  {one_line(step.mode)}"
    row = _Row(f"step {step.index}{notes}", "assistant", start_ms=step.start_ms, took_ms=step.duration_ms)
    yield "├─ ", row
    for place, child in enumerate(step.children):
        last = place == len(step.children) - 1
        yield from _child_rows(child, "│  └─ " if last else "│  ├─ ", "│     " if last else "│  │  ")


def _child_rows(child: Child, prefix: str, deeper: str) -> Iterator[_Placed]:
    match child:
        case AttemptSpan():
            yield from _attempt_rows(child, prefix, deeper)
        case ToolSpan():
            yield from _tool_rows(child, prefix, deeper)
        case Mark():
            dead = f" (dead for {duration(child.gap_ms)})" if child.gap_ms else ""
            yield prefix, _Row(f"{child.what}: {one_line(child.text[:400])}{dead}", "runtime")
        case _:
            assert_never(child)


def _attempt_rows(span: AttemptSpan, prefix: str, deeper: str) -> Iterator[_Placed]:
    if span.gap_ms >= GAP_SHOWN_MS:
        yield deeper[:6], _Row(f"· waited {duration(span.gap_ms)}", "dim")
    good = span.verdict is not None and not failed(span.verdict)
    purpose = "" if span.purpose == "turn" else f"{one_line(span.purpose)} "
    verdict = span.verdict or "no end seen"
    ttft = "" if span.ttft_ms is None else f", ttft {duration(span.ttft_ms)}"
    yield (
        prefix,
        _Row(
            f"{purpose}attempt {span.attempt} {verdict}{ttft}  {one_line(span.route)}",
            "plain" if good else "bad",
            start_ms=span.start_ms,
            took_ms=span.duration_ms,
            running=span.verdict is None,
            usage=span.usage,
            cost=cost(span.cost_usd) if span.usage is not None or good else "",
            bar="bar" if good else "bad",
        ),
    )
    for repair in span.repairs:
        yield deeper, _Row(f"repaired: {one_line(repair)}", "warn")
    if span.fault is not None:
        stall = f"stall {span.fault.stall} · " if span.fault.stall else ""
        status = f"HTTP {span.fault.status} · " if span.fault.status is not None else ""
        yield deeper, _Row(f"{stall}{status}{one_line(span.fault.message[:400])}", "bad")


def _tool_rows(span: ToolSpan, prefix: str, deeper: str) -> Iterator[_Placed]:
    good = span.outcome == "ok"
    outcome = "" if good else f"{span.outcome or 'no end seen'}  "
    yield (
        prefix,
        _Row(
            f"{one_line(span.name)}  {outcome}{brief(span.arguments, 60)}".rstrip(),
            "tool" if good else "bad",
            start_ms=span.start_ms,
            took_ms=span.duration_ms,
            running=span.outcome is None,
            usage=span.usage,
            cost=cost(span.cost_usd) if span.usage is not None else "",
            bar="tool" if good else "bad",
        ),
    )
    if span.subagent is not None:
        yield deeper, _Row(f"subagent {one_line(span.subagent)}", "dim")


def _end_of(turn: TurnSpan) -> float:
    ends = [turn.duration_ms or 0.0]
    ends += [step.start_ms + step.duration_ms for step in turn.steps]
    return max(ends)
