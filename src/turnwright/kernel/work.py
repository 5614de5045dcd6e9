"""What calls have done, read off them when they are about to be shown no longer: files read and changed, what no
command has verified since, the plan (C3). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from turnwright.schema.facts import Work
from turnwright.schema.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResults
from turnwright.schema.verdicts import Effect

PLAN_TOOL = "todo"
"""The tool whose last result is the plan."""
PATHS_MAX = 100
"""Of each list the newest so many are named."""
_PATCHED = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ", "+++ b/")


class _Arguments(msgspec.Struct):
    path: str = ""
    text: str = ""


_decode = msgspec.json.Decoder(_Arguments).decode


def work_of(before: Work, messages: Iterable[Message], effects: Mapping[str, Effect]) -> Work:
    """`before` and what these messages add to it."""
    read, changed = dict.fromkeys(before.read), dict.fromkeys(before.changed)
    unverified, plan = dict.fromkeys(before.unverified), before.plan
    for call, result in _settled(messages):
        if result.is_error:
            continue
        if call.name == PLAN_TOOL:
            plan = result.output
        match effects.get(call.name):
            case "reads":
                _touch(read, _paths(call))
            case "writes":
                paths = _paths(call)
                _touch(changed, paths)
                _touch(unverified, paths)
            case "runs":
                unverified.clear()
            case _:
                pass
    return Work(read=_newest(read), changed=_newest(changed), unverified=_newest(unverified), plan=plan)


def work_text(work: Work) -> str:
    """As the model reads it; empty where nothing was done."""
    lists = (
        ("Files changed", work.changed),
        ("Changed since a command last succeeded, so not verified", work.unverified),
        ("Files read", tuple(path for path in work.read if path not in work.changed)),
    )
    said = [f"{title}: {', '.join(paths)}" for title, paths in lists if paths]
    return "\n".join([*said, *([f"The plan:\n{work.plan}"] if work.plan else [])])


def _settled(messages: Iterable[Message]) -> Iterator[tuple[ToolCall, ToolResult]]:
    calls: dict[str, ToolCall] = {}
    for message in messages:
        match message:
            case AssistantMessage():
                calls |= {call.id: call for call in message.calls}
            case ToolResults(results=results):
                for result in results:
                    if (call := calls.pop(result.call_id, None)) is not None:
                        yield call, result
            case _:
                pass


def _paths(call: ToolCall) -> Sequence[str]:
    try:
        given = _decode(call.arguments)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ()
    if given.path:
        return (given.path,)
    lines = given.text.splitlines()
    return [line.removeprefix(mark).strip() for line in lines for mark in _PATCHED if line.startswith(mark)]


def _touch(paths: dict[str, None], more: Iterable[str]) -> None:
    """The newest last."""
    for path in more:
        paths.pop(path, None)
        paths[path] = None


def _newest(paths: Mapping[str, None]) -> tuple[str, ...]:
    return tuple(paths)[-PATHS_MAX:]
