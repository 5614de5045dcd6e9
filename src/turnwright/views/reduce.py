"""A run on one screen (V3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from turnwright.views.arguments import brief, values_of
from turnwright.views.fold import Blob
from turnwright.views.text import Line, Span, Style, clip, line, one_line, plural, safe
from turnwright.views.transcript import (
    AnyEntry,
    Asked,
    Call,
    Changed,
    Condensed,
    Ended,
    Faulted,
    Guarded,
    Noticed,
    Opened,
    Questioned,
    Replied,
    Resulted,
    Steered,
    Waiting,
)
from turnwright.views.wording import (
    answer_said,
    call_said,
    changed_said,
    condensed_said,
    ended_said,
    fault_said,
    guard_said,
    output_of,
)

_SHOWN_STEPS_MAX = 24
_DIFF_LINES_MAX = 24
_OPENING_NAMES = ("old", "old_text", "old_string", "search")
_CLOSING_NAMES = ("new", "new_text", "new_string", "replace")


class Reduction(msgspec.Struct, frozen=True, kw_only=True):
    """`turn_limit` keeps the last N turns. `tool_only` leaves out what was said and keeps what was done; `skip_tree`
    leaves out the steps and keeps questions, answers and ends; `show_diffs` adds what changed files; `max_length` is
    the most characters of any one text."""

    turn_limit: int | None = None
    tool_only: bool = False
    skip_tree: bool = False
    show_diffs: bool = False
    max_length: int = 160


USUAL = Reduction()


def reduced_lines(
    shown: Iterable[AnyEntry],
    how: Reduction = USUAL,
    *,
    diff: str = "",
    blob: Blob | None = None,
    columns: int = 100,
) -> Iterator[Line]:
    """`diff` is the whole run's, where it is known; it comes last."""
    head, turns = _by_turn(shown)
    for opened in head:
        if isinstance(opened, Opened):
            yield line(
                Span(one_line(opened.conversation_id), "heading"),
                clip(f"  {one_line(opened.model)}  {one_line(opened.workspace)}", columns - 22),
            )
    left_out = 0 if how.turn_limit is None else max(0, len(turns) - max(0, how.turn_limit))
    if left_out:
        yield line(Span(f"… {plural(left_out, 'earlier turn')} left out …", "dim"))
    for number, turn in enumerate(turns[left_out:], left_out + 1):
        yield from _turn(number, turn, how, blob, columns)
    if how.show_diffs and diff:
        yield line(Span("diff of the run", "heading"))
        yield from _diff(diff, columns, limit=4 * _DIFF_LINES_MAX)


def _by_turn(shown: Iterable[AnyEntry]) -> tuple[list[AnyEntry], list[list[AnyEntry]]]:
    head: list[AnyEntry] = []
    turns: list[list[AnyEntry]] = []
    for entry in shown:
        if isinstance(entry, Asked):
            turns.append([])
        (turns[-1] if turns else head).append(entry)
    return head, turns


def _turn(number: int, turn: list[AnyEntry], how: Reduction, blob: Blob | None, columns: int) -> Iterator[Line]:
    replies = [entry for entry in turn if isinstance(entry, Replied)]
    answer = next((reply for reply in reversed(replies) if reply.text and not reply.calls), None)
    hidden = _hidden(replies, how)
    place, told = -1, False
    for entry in turn:
        if isinstance(entry, Replied):
            place += 1
        if answer is not None and entry is answer:
            yield from _text("answer", "assistant", answer.text, how, columns)
        elif place in hidden and not isinstance(entry, Asked | Steered | Waiting | Ended):
            if not told and not how.skip_tree:
                yield line(Span(f"  … {plural(len(hidden), 'step')} left out …", "dim"))
            told = True
        elif isinstance(entry, Replied):
            yield from _reply(entry, how, blob, columns)
        else:
            yield from _other(number, entry, how, blob, columns)


def _hidden(replies: list[Replied], how: Reduction) -> range:
    """The middle of a long turn: how it began and how it ended say the most."""
    if how.skip_tree:
        return range(len(replies))
    half = _SHOWN_STEPS_MAX // 2
    return range(half, len(replies) - half) if len(replies) > _SHOWN_STEPS_MAX else range(0)


def _reply(entry: Replied, how: Reduction, blob: Blob | None, columns: int) -> Iterator[Line]:
    mark = f"  {one_line((entry.step_id or '').rpartition('#')[2]):>3} "
    if entry.text and not how.tool_only:
        yield line(Span(mark, "dim"), Span(_short(entry.text, how, columns - 6), "assistant"))
        mark = " " * 6
    if not entry.text and not entry.calls:
        yield line(Span(mark, "dim"), Span(f"({entry.verdict or 'not whole'})", "bad"))
    for call in entry.calls:
        yield from _call(mark, call, how, blob, columns)
        mark = " " * 6


def _call(mark: str, call: Call, how: Reduction, blob: Blob | None, columns: int) -> Iterator[Line]:
    said, style = call_said(call)
    name = one_line(call.name)
    room = max(12, columns - len(mark) - len(name) - len(said) - 4)
    asked = brief(call.arguments, min(room, how.max_length))
    yield line(Span(mark, "dim"), Span(name, "tool"), f"  {asked}  " if asked else "  ", Span(said, style))
    if call.status in ("failed", "timeout", "refused"):
        last = _last_line(output_of(call, blob) or call.problem)
        if last:
            yield line("        ", Span(_short(last, how, columns - 8), "bad"))
    if how.show_diffs and call.status == "ok":
        yield from _diff(_change(call), columns)


def _other(number: int, entry: AnyEntry, how: Reduction, blob: Blob | None, columns: int) -> Iterator[Line]:
    match entry:
        case Asked():
            label = f"turn {number}" + (" continued" if entry.continued else "")
            yield from _text(label, "user", entry.text, how, columns, always=True)
        case Ended():
            yield line(Span(clip(f"— {ended_said(entry)}", columns), "good" if entry.reason == "stop" else "bad"))
        case Resulted() if not how.skip_tree:
            yield from _call("  late ", entry.call, how, blob, columns)
        case Steered() if not how.tool_only:
            yield from _text("steered", "user", entry.text, how, columns)
        case Waiting() if not how.tool_only:
            yield from _text("waiting", "user", entry.text, how, columns)
        case Faulted() if not how.skip_tree:
            yield line("      ", Span(_short(fault_said(entry), how, columns - 6), "bad"))
        case Guarded() if not how.skip_tree:
            yield line("      ", Span(_short(guard_said(entry), how, columns - 6), "warn"))
        case Noticed() if not how.skip_tree and not how.tool_only:
            yield line("      ", Span(_short(f"{entry.code}: {entry.text}", how, columns - 6), "runtime"))
        case Questioned() if not how.skip_tree:
            said = f"asked: {one_line(entry.question)} — {answer_said(entry)}"
            yield line("      ", Span(_short(said, how, columns - 6), "runtime"))
        case Changed() if not how.skip_tree:
            yield line("      ", Span(_short(changed_said(entry), how, columns - 6), "runtime"))
        case Condensed() if not how.skip_tree:
            yield line("      ", Span(_short(condensed_said(entry), how, columns - 6), "runtime"))
        case _:
            pass


def _text(label: str, style: Style, text: str, how: Reduction, columns: int, always: bool = False) -> Iterator[Line]:
    if how.tool_only and not always:
        return
    yield line(Span(label, style), "  ", clip(one_line(text[: 4 * how.max_length]), min(how.max_length, 2 * columns)))


def _short(text: str, how: Reduction, columns: int) -> str:
    return clip(one_line(text[: 4 * how.max_length]), max(10, min(how.max_length, columns)))


def _last_line(text: str) -> str:
    return next((each for each in reversed(text[-2_000:].splitlines()) if each.strip()), "")


def _change(call: Call) -> str:
    """What a call changed, from its arguments: a patch as it is, a replacement as removed and added lines."""
    values = values_of(call.arguments)
    if values is None or call.effect != "writes":
        return ""
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    old = next((texts[name] for name in _OPENING_NAMES if name in texts), None)
    new = next((texts[name] for name in _CLOSING_NAMES if name in texts), None)
    if old is not None and new is not None:
        return "\n".join([f"-{each}" for each in old.splitlines()] + [f"+{each}" for each in new.splitlines()])
    if "patch" in texts:
        return texts["patch"]
    return "\n".join(f"+{each}" for each in texts["content"].splitlines()) if "content" in texts else ""


def _diff(text: str, columns: int, limit: int = _DIFF_LINES_MAX) -> Iterator[Line]:
    lines = safe(text).splitlines()
    styles: dict[str, Style] = {"+": "good", "-": "bad", "@": "dim"}
    for each in lines[:limit]:
        yield line("        ", Span(clip(each.expandtabs(4), columns - 8), styles.get(each[:1], "plain")))
    if len(lines) > limit:
        yield line("        ", Span(f"… {plural(len(lines) - limit, 'more line')} …", "dim"))
