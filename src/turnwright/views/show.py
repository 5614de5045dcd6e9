"""The transcript in a terminal. Whatever others said stands indented under a line of ours, so that no text can pose as
somebody else's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from turnwright.views.arguments import brief
from turnwright.views.fold import Blob
from turnwright.views.text import Line, Span, Style, clip, excerpt, line, one_line, plural, safe
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
    SHORTENED,
    Detail,
    answer_said,
    call_said,
    changed_said,
    condensed_said,
    ended_said,
    fault_said,
    guard_said,
    opened_said,
    output_of,
    question_said,
)


def show_lines(
    shown: Iterable[AnyEntry], detail: Detail = SHORTENED, blob: Blob | None = None, columns: int = 100
) -> Iterator[Line]:
    for entry in shown:
        yield from entry_lines(entry, detail, blob, columns)


def entry_lines(
    entry: AnyEntry, detail: Detail = SHORTENED, blob: Blob | None = None, columns: int = 100
) -> Iterator[Line]:
    """One entry by itself, for whoever prints them as they are settled."""
    match entry:
        case Opened():
            yield line(Span(one_line(entry.conversation_id), "heading"))
            for name, value in opened_said(entry):
                yield line(Span(f"  {name}: ", "dim"), one_line(value))
        case Asked():
            yield from _asked(entry, detail)
        case Steered():
            yield from _said("user, while the turn ran", "user", entry.text, detail)
        case Waiting():
            when = "the next tool boundary" if entry.kind == "steer" else "the next turn"
            yield from _said(f"user, waiting for {when}", "user", entry.text, detail)
        case Noticed():
            heading = f"turnwright to the model ({one_line(entry.code)})" if entry.to_model else "turnwright"
            text = entry.text if entry.to_model else f"{entry.code}: {entry.text}"
            yield from _said(heading, "runtime", text, detail)
        case Guarded():
            yield line(Span("turnwright", "runtime"), Span(f"  {guard_said(entry)}", "warn"))
            if entry.said is not None:
                yield line(Span("  told the model:", "dim"))
                yield from _text(entry.said, detail, "    ")
        case Replied():
            yield from _replied(entry, detail, blob, columns)
        case Resulted():
            yield line(Span("turnwright", "runtime"), Span("  a result recorded after its step", "dim"))
            yield from _call(entry.call, detail, blob, columns)
        case Faulted():
            yield line(Span("turnwright", "runtime"), Span(f"  {fault_said(entry)}", "bad"))
            if entry.partial_text:
                yield line(Span("  what had arrived of it:", "dim"))
                yield from _text(entry.partial_text, detail, "    ")
        case Questioned():
            yield from _said(question_said(entry), "runtime", entry.question, detail)
            if entry.choices:
                yield line(Span(f"  choices: {', '.join(map(one_line, entry.choices))}", "dim"))
            yield line(Span(f"  {answer_said(entry)}", "dim"))
        case Changed():
            yield line(Span("turnwright", "runtime"), f"  {changed_said(entry)}")
            if entry.said is not None:
                yield line(Span("  told the model:", "dim"))
                yield from _text(entry.said, detail, "    ")
        case Condensed():
            yield from _said(f"turnwright: {condensed_said(entry)}", "runtime", entry.digest, detail)
        case Ended():
            yield line(Span(f"— {ended_said(entry)}", "good" if entry.reason == "stop" else "bad"))
        case _:
            assert_never(entry)


def _asked(entry: Asked, detail: Detail) -> Iterator[Line]:
    yield line()
    if entry.continued:
        yield line(Span("turnwright", "runtime"), "  carried on from where the turn was interrupted")
    if entry.text or not entry.continued:
        mode = "" if entry.mode == "build" else f" ({one_line(entry.mode)})"
        yield from _said(f"user{mode}", "user", entry.text, detail)
    if entry.images:
        yield line(Span(f"  [{plural(len(entry.images), 'image')}]", "dim"))


def _said(heading: str, style: Style, text: str, detail: Detail) -> Iterator[Line]:
    yield line(Span(heading, style))
    yield from _text(text, detail, "  ")


def _text(text: str, detail: Detail, indent: str, style: Style = "plain") -> Iterator[Line]:
    for each in excerpt(safe(text), detail.text_chars).split("\n"):
        yield line(indent, Span(each.expandtabs(4), style))


def _replied(entry: Replied, detail: Detail, blob: Blob | None, columns: int) -> Iterator[Line]:
    verdict = "" if entry.verdict in ("complete", "tool_calls", None) else f" ({entry.verdict})"
    if entry.verdict is None:
        verdict = " (the reply was not whole)"
    yield line(Span(f"assistant{verdict}", "assistant"))
    thought = "\n\n".join(text for text in entry.reasoning if text)
    if thought and detail.reasoning:
        yield from _text(thought, detail, "  ~ ", "reasoning")
    elif entry.reasoning:
        about = f"{len(thought):,} characters" if thought else "not readable"
        yield line(Span(f"  ~ thought ({about})", "reasoning"))
    if entry.text:
        yield from _text(entry.text, detail, "  ")
    for call in entry.calls:
        yield from _call(call, detail, blob, columns)


def _call(call: Call, detail: Detail, blob: Blob | None, columns: int) -> Iterator[Line]:
    name = one_line(call.name)
    short = brief(call.arguments, min(detail.argument_chars, max(20, columns - len(name) - 6)))
    yield line("  → ", Span(name, "tool"), f"  {short}" if short else "")
    if detail.argument_chars > columns and len(call.arguments) > columns:
        for each in excerpt(safe(call.arguments), detail.argument_chars).split("\n"):
            yield line("    ", Span(each.expandtabs(4), "dim"))
    said, style = call_said(call)
    yield line("    ", Span(said, style))
    if call.problem:
        yield line("    ", Span(clip(one_line(call.problem), 4 * columns), "bad"))
    output = output_of(call, blob)
    if output:
        short = excerpt(safe(output).rstrip("\n"), detail.output_chars, detail.output_lines)
        for each in short.split("\n"):
            yield line(Span("    │ ", "dim"), Span(each.expandtabs(4), "output"))
