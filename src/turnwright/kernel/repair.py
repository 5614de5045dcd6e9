"""What weak models get wrong in a way that can be put right without guessing (K7): several JSON objects where the
arguments of one call belong, and, where the user has said so, calls that were written into the text.

Everything here is pure, and linear in the length of what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from turnwright.kernel.assemble import CUT_AT_LIMIT, problem_of
from turnwright.schema.ids import CallId
from turnwright.schema.messages import AssistantMessage, ToolCall

OBJECTS_MAX = 16
"""More objects than this in one call are no slip."""
CALLS_MAX = 16
CANDIDATES_MAX = 64


class Repaired(msgspec.Struct, frozen=True):
    message: AssistantMessage
    done: tuple[str, ...] = ()
    """What was put right, for the record."""


def repaired(
    message: AssistantMessage, offered: Collection[str], new_id: Callable[[], CallId], *, recover: bool
) -> Repaired:
    """`recover`: calls in the text of a reply that makes none are made; of offered tools alone."""
    done: list[str] = []
    calls: list[ToolCall] = []
    for call in message.calls:
        several = fanned_out(call, new_id)
        calls += several
        if len(several) > 1:
            done.append(f"{len(several)} objects in the arguments of one call of {call.name} were made as many calls")
    text = message.text
    if recover and not calls and text:
        text, found = leaked(text, offered)
        calls = [ToolCall(id=new_id(), name=name, arguments=arguments) for name, arguments in found]
        done += [f"a call of {call.name} was taken from the text" for call in calls]
    if not done:
        return Repaired(message)
    return Repaired(msgspec.structs.replace(message, text=text, calls=tuple(calls)), tuple(done))


def fanned_out(call: ToolCall, new_id: Callable[[], CallId]) -> list[ToolCall]:
    """`{"path":"a"}{"path":"b"}` are two calls. The first keeps the id."""
    if not call.raw or call.problem == CUT_AT_LIMIT:
        return [call]
    objects = list(_objects(call.raw))
    if not 1 < len(objects) <= OBJECTS_MAX or any(map(problem_of, objects)):
        return [call]
    made = [
        ToolCall(id=call.id if place == 0 else new_id(), name=call.name, arguments=arguments)
        for place, arguments in enumerate(objects)
    ]
    return [msgspec.structs.replace(made[0], signature=call.signature), *made[1:]]


def _objects(text: str) -> Iterator[str]:
    """The objects of which all of the text is made; nothing where it is made of anything else."""
    found: list[str] = []
    at = 0
    while len(found) <= OBJECTS_MAX:
        at = _after_blanks(text, at)
        if at == len(text):
            yield from found
            return
        value, end = _value_at(text, at)
        if not isinstance(value, dict):
            return
        found.append(text[at:end])
        at = end


def leaked(text: str, offered: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text without the calls that were written into it, and these, as name and arguments."""
    kept: list[str] = []
    found: list[tuple[str, str]] = []
    done = 0
    for start, at, close in _openings(text):
        if start < done or len(found) == CALLS_MAX:
            continue
        value, end = _value_at(text, at)
        calls = list(_calls_of(value, offered))
        if not calls:
            continue
        behind = _after_blanks(text, end)
        if close and text.startswith(close, behind):
            behind += len(close)
        elif close != "" and behind != len(text):
            continue  # without the closing mark it is one only at the end of the reply
        kept.append(text[done:start])
        found += calls
        done = behind
    if not found:
        return text, []
    kept.append(text[done:])
    return "".join(kept).strip(), found


_MARKS = (
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("[TOOL_CALLS]", ""),
    ("<|python_tag|>", ""),
    ("```json\n", "```"),
    ("```tool_call\n", "```"),
    ("```\n", "```"),
)
"""How models open a call that they write, and how they close it."""


def _openings(text: str) -> list[tuple[int, int, str]]:
    """Where a call may have been written: the mark, what is behind it, and the mark that closes it. All of a text that
    is one JSON value is one, too."""
    found: list[tuple[int, int, str]] = []
    for mark, close in _MARKS:
        at = text.find(mark)
        while at >= 0 and len(found) < CANDIDATES_MAX:
            found.append((at, _after_blanks(text, at + len(mark)), close))
            at = text.find(mark, at + len(mark))
    first = _after_blanks(text, 0)
    if text.startswith(("{", "["), first):
        found.append((first, first, "\n"))
    return sorted(found)


def _calls_of(value: Any, offered: Collection[str]) -> Iterator[tuple[str, str]]:
    for each in value if isinstance(value, list) else [value]:
        match each:
            case {"function": {"name": str(name)} as function} if name in offered:
                arguments = _arguments(function)
            case {"name": str(name)} if name in offered:
                arguments = _arguments(each)
            case _:
                continue
        if arguments is not None:
            yield name, arguments


def _arguments(call: dict[str, Any]) -> str | None:
    for key in ("arguments", "parameters", "input"):
        given = call.get(key)
        if isinstance(given, str):
            value, end = _value_at(given, 0)
            given = value if end == len(given) else None
        if isinstance(given, dict):
            return _encoded(given)
    return None


def _encoded(arguments: dict[str, Any]) -> str | None:
    try:
        return msgspec.json.encode(arguments).decode()
    except (UnicodeEncodeError, OverflowError):
        return None  # half a character, or a number that nothing takes: left as it is


def _value_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins there and where it ends; None where there is none."""
    import json  # only what is to be put right needs it: msgspec does not say where a value ends

    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at
    return value, end


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
