"""The transcript as Markdown (`conversation.md`).

Headings are ours alone. What the user and the model said stands in block quotes with its HTML disarmed; arguments and
output stand in fences longer than any within them: no text can leave its place and pose as somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from turnwright.views.arguments import values_of
from turnwright.views.fold import Blob
from turnwright.views.text import excerpt, one_line, plural, safe, when
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

DETAIL = Detail(reasoning=True, output_lines=200, output_chars=20_000, argument_chars=20_000)

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_INSIDE = re.compile(r"```|~~~")


def markdown(shown: Iterable[AnyEntry], detail: Detail = DETAIL, blob: Blob | None = None) -> Iterator[str]:
    """Pieces of the document, in order."""
    for entry in shown:
        yield "".join(_entry(entry, detail, blob))


def _entry(entry: AnyEntry, detail: Detail, blob: Blob | None) -> Iterator[str]:
    match entry:
        case Opened():
            yield f"# Conversation {_code(entry.conversation_id)}\n\n"
            for name, value in opened_said(entry):
                yield f"- {name}: {_code(value)}\n"
            yield f"- opened: {when(entry.at)}\n\n"
        case Asked():
            if entry.continued:
                yield "## Turnwright\n\nThe turn was interrupted; it carries on here.\n\n"
            if entry.text or not entry.continued:
                mode = "" if entry.mode == "build" else f" (mode {_code(entry.mode)})"
                yield f"## User{mode}\n\n{_quote(entry.text, detail)}"
            if entry.images:
                yield f"*{plural(len(entry.images), 'image')} not shown.*\n\n"
        case Steered():
            yield f"## User, while the turn ran\n\n{_quote(entry.text, detail)}"
        case Waiting():
            then = "the next tool boundary" if entry.kind == "steer" else "the next turn"
            yield f"## User, waiting for {then}\n\n{_quote(entry.text, detail)}"
        case Noticed():
            heading = "Turnwright to the model" if entry.to_model else "Turnwright"
            yield f"## {heading}: {_code(entry.code)}\n\n{_quote(entry.text, detail)}"
        case Guarded():
            yield f"## Turnwright\n\n{_words(guard_said(entry))}\n\n"
            if entry.said is not None:
                yield f"It told the model:\n\n{_quote(entry.said, detail)}"
        case Replied():
            yield from _replied(entry, detail, blob)
        case Resulted():
            yield "## Turnwright\n\nA result recorded after its step was over:\n\n"
            yield from _call(entry.call, detail, blob)
        case Faulted():
            yield f"## Turnwright\n\n{_words(fault_said(entry))}\n\n"
            if entry.partial_text:
                yield f"What had arrived of it:\n\n{_quote(entry.partial_text, detail)}"
        case Questioned():
            yield f"## Turnwright: {_words(question_said(entry))}\n\n{_quote(entry.question, detail)}"
            if entry.choices:
                yield f"Choices: {', '.join(_code(choice) for choice in entry.choices)}\n\n"
            yield f"{_words(answer_said(entry))}\n\n"
        case Changed():
            yield f"## Turnwright\n\n{_words(changed_said(entry))}\n\n"
            if entry.said is not None:
                yield f"It told the model:\n\n{_quote(entry.said, detail)}"
        case Condensed(digest=""):
            yield f"## Turnwright\n\n{condensed_said(entry)}."
        case Condensed():
            yield f"## Turnwright\n\n{condensed_said(entry)}:\n\n{_quote(entry.digest, detail)}"
        case Ended():
            yield f"---\n\n**{entry.reason}** {_words(ended_said(entry).removeprefix(entry.reason))}\n\n"
        case _:
            assert_never(entry)


def _replied(entry: Replied, detail: Detail, blob: Blob | None) -> Iterator[str]:
    step = f" ({_code(entry.step_id)})" if entry.step_id else ""
    yield f"## Assistant{step}\n\n"
    if entry.verdict is None:
        yield "*The reply was not whole.*\n\n"
    elif entry.verdict not in ("complete", "tool_calls"):
        yield f"*Verdict: {entry.verdict}.*\n\n"
    thought = "\n\n".join(text for text in entry.reasoning if text)
    if thought and detail.reasoning:
        summary = f"<summary>Reasoning, {len(thought):,} characters</summary>"
        yield f"<details>{summary}\n\n{_fence(thought, 'text', detail.text_chars)}</details>\n\n"
    elif entry.reasoning:
        yield f"*Reasoning, {len(thought):,} characters, not shown.*\n\n"
    if entry.text:
        yield _quote(entry.text, detail)
    for call in entry.calls:
        yield from _call(call, detail, blob)


def _call(call: Call, detail: Detail, blob: Blob | None) -> Iterator[str]:
    yield f"### {_code(call.name)}: {_words(call_said(call)[0])}\n\n"
    if call.problem:
        yield _quote(call.problem, detail)
    if call.arguments not in ("", "{}"):
        yield _fence(_pretty(call.arguments), "json", detail.argument_chars)
    if call.raw:
        yield f"As it was sent:\n\n{_fence(call.raw, 'text', detail.argument_chars)}"
    output = output_of(call, blob)
    if output:
        yield _fence(output, "text", detail.output_chars, detail.output_lines)


def _pretty(arguments: str) -> str:
    if values_of(arguments) is None:
        return arguments
    return msgspec.json.format(arguments, indent=2)


def _quote(text: str, detail: Detail) -> str:
    lines = _disarmed(excerpt(safe(text), detail.text_chars).split("\n"))
    return "".join(f"> {each}".rstrip() + "\n" for each in lines) + "\n"


def _disarmed(lines: list[str]) -> Iterator[str]:
    """HTML could close the quote around it. It is left alone only within code fences, and only where all fences stand
    at the margin: there alone is it certain that every reader of the document sees the same fences."""
    certain = not any(_FENCE_INSIDE.search(each.lstrip("`") if each[:1] == "`" else each.lstrip("~")) for each in lines)
    fence = ""
    for each in lines:
        if fence:
            bare = each.rstrip(" \t")
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
            yield each
            continue
        opening = _FENCE.match(each) if certain else None
        fence = opening[1] if opening is not None else ""
        yield _TAG.sub("&lt;", each)


def _fence(text: str, language: str, max_chars: int, max_lines: int = 1_000_000) -> str:
    body = excerpt(safe(text).rstrip("\n"), max_chars, max_lines)
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{body}\n{fence}\n\n"


def _code(text: str) -> str:
    """A code span that its text cannot leave."""
    text = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _words(text: str) -> str:
    """Words of ours that may carry somebody else's: on one line, and only words."""
    return re.sub(r"([\\`*_\[\]#|~])|<", lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", one_line(text))
