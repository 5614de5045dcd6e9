"""What a fact says while a turn runs: a line each, with how much it matters."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    AttemptStarted,
    ContextCompacted,
    ConversationOpened,
    GuardTripped,
    InboxAdmitted,
    ModeChanged,
    ModelReplied,
    Note,
    Recorded,
    RouteSwitched,
    SteeringDelivered,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WorkspaceSaved,
)
from turnwright.schema.live import Heartbeat, LiveEvent, RetryWait
from turnwright.schema.sandbox import Confinement
from turnwright.schema.verdicts import GOOD_VERDICTS
from turnwright.views.arguments import brief
from turnwright.views.result import Result
from turnwright.views.text import Line, Span, cost, count, duration, line, one_line, plural

Level: TypeAlias = Literal["error", "warning", "info", "debug"]
LEVELS: tuple[Level, ...] = get_args(Level)

_BRIEF_COLUMNS = 80
_EXCERPT_CHARS = 300


class Told(msgspec.Struct, frozen=True):
    """A line and how much it matters."""

    level: Level
    line: Line


def shows(wanted: Level, level: Level) -> bool:
    return LEVELS.index(level) <= LEVELS.index(wanted)


def told_of_fact(recorded: Recorded) -> Told | None:
    """None where a fact says nothing to someone who watches."""
    fact = recorded.fact
    match fact:
        case ConversationOpened():
            about = f"  {one_line(fact.model)} in {one_line(fact.workspace)}"
            return Told("info", line(Span(recorded.conversation_id, "heading"), Span(about, "dim")))
        case TurnStarted(confinement=Confinement(whole=whole) as confinement):
            about = f"sandbox {one_line(str(confinement))}"
            return Told("debug" if whole else "warning", line(Span(about, "dim" if whole else "warn")))
        case StepStarted():
            return Told(
                "debug", line(Span(f"step {fact.index + 1}{'' if fact.tools_offered else ', without tools'}", "dim"))
            )
        case AttemptStarted():
            return Told("debug", line(Span(f"attempt {fact.attempt} on {one_line(fact.route)}", "dim")))
        case AttemptEnded():
            return _attempt_ended(fact)
        case ToolStarted():
            said = f"  {brief(fact.arguments, _BRIEF_COLUMNS)}"
            return Told("info", line("→ ", Span(one_line(fact.name), "tool"), said))
        case ToolEnded():
            return _tool_ended(fact)
        case GuardTripped():
            said = f"guard {one_line(fact.guard)}, {fact.verdict}: {one_line(fact.why)}"
            return Told("warning", line(Span(said, "warn")))
        case RouteSwitched():
            said = f"route {one_line(fact.before)} → {one_line(fact.after)}: {one_line(fact.reason)}"
            return Told("warning", line(Span(said, "warn")))
        case ModeChanged():
            said = f"mode {one_line(fact.before)} → {one_line(fact.after)}: {one_line(fact.reason)}"
            return Told("info", line(Span(said, "runtime")))
        case ContextCompacted():
            said = f"context condensed: {count(fact.tokens_before)} → {count(fact.tokens_after)} tokens"
            return Told("info", line(Span(said, "runtime")))
        case ApprovalAsked():
            return Told("info", line(Span(f"? {one_line(fact.question)}", "runtime")))
        case ApprovalAnswered():
            return _answered(fact)
        case InboxAdmitted():
            return Told("info", line(Span(f"heard: {_excerpt(fact.text)}", "user")))
        case SteeringDelivered():
            return Told("info", line(Span(f"told the model: {_excerpt(fact.text)}", "user")))
        case Note(code="permitted" | "denied"):
            return Told("debug", line(Span(_excerpt(fact.text), "dim")))  # the call itself is shown, and why it was not
        case Note(code="untrusted"):
            return Told("debug", line(Span(_excerpt(fact.text), "warn")))  # said before the turn, all in one line
        case Note():
            return Told("warning", line(Span(f"{one_line(fact.code)}: {_excerpt(fact.text)}", "warn")))
        case WorkspaceSaved():
            return Told("debug", line(Span(f"workspace saved: {plural(fact.files, 'file')}", "dim")))
        case ModelReplied() | TurnEnded():
            return None  # a reply's text and a turn's end are not one line: the face shows them itself
        case _:
            return None


def told_of_live(event: LiveEvent) -> Told | None:
    match event:
        case RetryWait():
            said = f"waiting {duration(event.delay_s * 1000)} before attempt {event.attempt}: {one_line(event.reason)}"
            return Told("warning", line(Span(said, "warn")))
        case Heartbeat():
            said = f"… step {event.step} · {duration(event.elapsed_s * 1000)} · {one_line(event.waiting_for)}"
            return Told("info", line(Span(said, "dim")))
        case _:
            return None


def told_of_end(result: Result, conversation_id: str) -> Told:
    about = f"{plural(result.steps, 'step')} · {metrics_said(result)}"
    if result.reason == "stop" and not result.is_error:
        return Told("info", line(Span(f"{result.reason} · {about}", "good")))
    because = f": {_excerpt(result.detail)}" if result.detail else ""
    remedy = f" · {result.remedy}" if result.remedy else ""
    denied = f" · {plural(len(result.denials), 'denial')}" if result.denials else ""
    how = f" · carry on with: turnwright resume {conversation_id} --continue" if conversation_id else ""
    return Told("error", line(Span(f"{result.reason}{because} · {about}{denied}{remedy}{how}", "bad")))


def metrics_said(result: Result) -> str:
    """What the turn used. `≥` marks what is not all of it, `~` what was reckoned and not reported."""
    usage = result.usage
    least = "≥" if "usage" in result.estimated and (usage.input or usage.output) else ""
    cached = "" if usage.cache_read is None else f" ({count(usage.cache_read)} cached)"
    about = "~" if "cost" in result.estimated and result.cost_usd is not None else ""
    pace = "" if result.tokens_per_s is None else f" · {result.tokens_per_s:.0f} tok/s"
    return (
        f"{least}{count(usage.input)} in{cached}, {least}{count(usage.output)} out · {about}{cost(result.cost_usd)}"
        f" · {duration(result.duration_ms)}{pace}"
    )


def sentence_of(result: Result) -> str:
    """Why a turn did not end well, and what can be done."""
    because = f": {_excerpt(result.detail).rstrip('.')}" if result.detail else ""
    remedy = f" {result.remedy}" if result.remedy else ""
    return f"{result.reason}{because}.{remedy}"


def _attempt_ended(fact: AttemptEnded) -> Told:
    purpose = "" if fact.purpose == "turn" else f" for {one_line(fact.purpose)}"
    if fact.verdict not in GOOD_VERDICTS and fact.verdict != "cancelled":
        fault = f": {_excerpt(fact.fault.message)}" if fact.fault else ""
        status = f" {fact.fault.status}" if fact.fault and fact.fault.status else ""
        said = f"attempt {fact.attempt}{purpose} on {one_line(fact.route)}: {fact.verdict}{status}{fault}"
        return Told("warning", line(Span(said, "warn")))
    tokens = "" if fact.usage is None else f" · {count(fact.usage.input)} in, {count(fact.usage.output)} out"
    repaired = "".join(f" · {one_line(each)}" for each in fact.repairs)
    said = f"model{purpose} {fact.verdict} · {duration(fact.timing.total_ms)}{tokens}{repaired}"
    return Told("info", line(Span(said, "dim")))


def _tool_ended(fact: ToolEnded) -> Told:
    parts: list[str] = [fact.outcome]
    exit_code = fact.detail.get("exit_code")
    if isinstance(exit_code, int) and exit_code:
        parts.append(f"exit {exit_code}")
    parts.append(duration(fact.duration_ms))
    good = fact.outcome == "ok"
    shown = "" if good else f"  {_last_line(fact.output)}"
    return Told(
        "info",
        line("← ", Span(one_line(fact.name), "tool"), Span(f"  {' · '.join(parts)}", "good" if good else "bad"), shown),
    )


def _answered(fact: ApprovalAnswered) -> Told:
    if fact.by == "nobody":
        return Told("warning", line(Span("nobody could answer, which is a denial", "warn")))
    return Told("info", line(Span(f"answered by {fact.by}: {_excerpt(fact.answer)}", "dim")))


def _excerpt(text: str) -> str:
    text = one_line(text[: 2 * _EXCERPT_CHARS])
    return text if len(text) <= _EXCERPT_CHARS else text[:_EXCERPT_CHARS] + "…"


def _last_line(output: str) -> str:
    """Where a failure usually says what it was; the exit code's own line is said already."""
    lines = [each for each in output[-4 * _EXCERPT_CHARS :].strip().splitlines() if not each.startswith("[exit code")]
    return _excerpt(lines[-1]) if lines else ""
