"""A history for a model that has no tools: its calls as it would write them, their results as words of the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.providers.text_tools.notation import Writer
from turnwright.schema.messages import AssistantMessage, Message, RuntimeMessage, ToolCall, ToolResult, ToolResults

RESULTS = "tool-results"
"""The code of the message that carries them."""


def spoken(message: Message, writers: Sequence[Writer]) -> Message:
    """Depends on nothing but its arguments: what was rendered once is sent again with every later step."""
    match message:
        case AssistantMessage(calls=calls) if calls:
            text = message.text if not message.text or message.text.endswith("\n") else message.text + "\n"
            written = "\n".join(_call(call, writers) for call in calls)
            return AssistantMessage(text=text + written, reasoning=message.reasoning, route=message.route)
        case ToolResults(results=results):
            return RuntimeMessage(code=RESULTS, text="\n".join(map(_result, results)))
        case _:
            return message


def _call(call: ToolCall, writers: Sequence[Writer]) -> str:
    for write in writers:
        text = write(call)
        if text is not None:
            return text
    return call.raw or f"(called {call.name} with {call.arguments})"


def _result(result: ToolResult) -> str:
    failed = ' error="true"' if result.is_error else ""
    images = f"\n[{len(result.images)} images, which this model is not shown]" if result.images else ""
    return f'<tool_response name="{result.name}"{failed}>\n{_harmless(result.output)}{images}\n</tool_response>'


def _harmless(output: str) -> str:
    """A result must not be able to end itself and go on in the voice of the runtime."""
    for tag in ("</tool_response", "</runtime-message"):
        if tag in output:
            output = output.replace(tag, f"<\\/{tag[2:]}")
    return output
