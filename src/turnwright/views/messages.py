"""Messages as a model is shown them, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnwright.schema.messages import AssistantMessage, Message, RuntimeMessage, ToolResults, UserMessage
from turnwright.views.arguments import brief
from turnwright.views.text import Line, Span, clip, line, one_line, plural


def message_lines(messages: Iterable[Message], columns: int) -> Iterator[Line]:
    for message in messages:
        match message:
            case UserMessage():
                yield line(Span("user", "user"))
                yield from _text(message.text, columns)
            case RuntimeMessage():
                yield line(Span(f"runtime ({one_line(message.code)})", "runtime"))
                yield from _text(message.text, columns)
            case AssistantMessage():
                yield line(Span("assistant", "heading"))
                yield from _text(message.text, columns)
                for call in message.calls:
                    yield line("  → ", Span(one_line(call.name), "tool"), f"  {brief(call.arguments, columns - 10)}")
            case ToolResults():
                for result in message.results:
                    failed = " failed" if result.is_error else ""
                    size = f"  {plural(len(result.output), 'character')}"
                    yield line("  ← ", Span(one_line(result.name), "tool"), failed, Span(size, "dim"))
                    yield from _text(result.output, columns, most=4)


def _text(text: str, columns: int, most: int = 40) -> Iterator[Line]:
    lines = text.splitlines()
    for each in lines[:most]:
        yield line("    ", clip(one_line(each), columns - 4))
    if len(lines) > most:
        yield line(Span(f"    … {plural(len(lines) - most, 'more line')}", "dim"))
