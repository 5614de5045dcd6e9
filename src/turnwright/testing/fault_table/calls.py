"""Tool calls as providers really send them (P9, K7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from turnwright.testing.dialects.openai_chat import chunk
from turnwright.testing.dialects.said import Frame, Said, SaidCall
from turnwright.testing.fault_table.case import (
    ANNOUNCED,
    CALL,
    Behaviour,
    Expected,
    Fault,
    Setting,
    before,
    good,
)

Make: TypeAlias = Callable[[Setting], Behaviour | None]

SECOND = SaidCall(name="glob", fragments=('{"pattern"', ': "*.t', 'xt"}'), id="call_2")
TEXTUAL = ("openai-chat", "openai-responses")
"""Dialects that send arguments as text, which may be anything."""


def _said(setting: Setting, *calls: SaidCall) -> Said:
    if setting.dialect in ("gemini", "ollama"):
        calls = tuple(msgspec.structs.replace(call, id="") for call in calls)
    return Said(text=ANNOUNCED, calls=calls, finish="tool_calls")


def _calls(*calls: SaidCall, only: tuple[str, ...] = ()) -> Make:
    """A reply with these calls, all of which are run."""

    def make(setting: Setting) -> Behaviour | None:
        if not setting.tools or (only and setting.dialect not in only):
            return None
        said = _said(setting, *calls)
        return Behaviour(setting.reply(said), good(setting, said))

    return make


def _not_run(setting: Setting, said: Said) -> Expected:
    """The model is told what is wrong with its call, and answers."""
    return msgspec.structs.replace(good(setting, said), verdict="malformed_call", calls=())


def _unparsable(fragments: tuple[str, ...]) -> Make:
    """The provider says that the reply is whole, and the arguments are no JSON object."""

    def make(setting: Setting) -> Behaviour | None:
        textual = setting.dialect in TEXTUAL or (setting.dialect == "anthropic" and setting.streaming)
        if not setting.tools or not textual:
            return None
        said = _said(setting, msgspec.structs.replace(CALL, fragments=fragments))
        return Behaviour(setting.reply(said), _not_run(setting, said))

    return make


def _unknown_tool(setting: Setting) -> Behaviour | None:
    if not setting.tools:
        return None
    said = _said(setting, SaidCall(name="teleport", fragments=("{}",), id="call_1"))
    return Behaviour(setting.reply(said), msgspec.structs.replace(good(setting, said), calls=()))


def _no_arguments(setting: Setting) -> Behaviour | None:
    """Nothing where `{}` belongs."""
    if not setting.tools or setting.dialect not in TEXTUAL:
        return None
    said = _said(setting, msgspec.structs.replace(CALL, fragments=("",)))
    return Behaviour(setting.reply(said), good(setting, said))


def _calls_only(setting: Setting) -> Behaviour | None:
    if not setting.tools:
        return None
    said = msgspec.structs.replace(_said(setting, CALL), text=())
    return Behaviour(setting.reply(said), good(setting, said))


# What hosts of OpenAI's chat dialect do to the deltas of calls. `deltas` are the values of `tool_calls`.


def _deltas(*deltas: list[dict[str, Any]], calls: tuple[SaidCall, ...] = (CALL,)) -> Make:
    def make(setting: Setting) -> Behaviour | None:
        if not setting.tools or not setting.streaming or setting.dialect != "openai-chat":
            return None
        said = _said(setting, *calls)
        frames = setting.frames(said)
        sent = [chunk("arguments", {"tool_calls": delta}, said) for delta in deltas]
        ending = [one for one in frames if one.kind in ("finish", "usage", "done")]
        return Behaviour(setting.of_frames([*before(frames, "call"), *sent, *ending]), good(setting, said))

    return make


def _delta(arguments: str | None = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


A, B, C = CALL.fragments
D, E, F = SECOND.fragments
BOTH = (CALL, SECOND)

CHAT_FAULTS = (
    Fault("ids-missing", "Calls without ids", _deltas([_delta("", "ls", index=0)], [_delta(A + B + C, index=0)])),
    Fault(
        "ids-empty",
        "Calls with empty ids",
        _deltas([_delta("", "ls", index=0, id="")], [_delta(A, index=0, id="")], [_delta(B + C, index=0, id="")]),
    ),
    Fault(
        "ids-repeated",
        "The id comes with every piece",
        _deltas(*([_delta(piece, "ls", index=0, id="call_1")] for piece in CALL.fragments)),
    ),
    Fault(
        "ids-reused",
        "Two calls under one id",
        _deltas(
            [_delta(A + B + C, "ls", index=0, id="call_1")],
            [_delta(D + E + F, "glob", index=1, id="call_1")],
            calls=BOTH,
        ),
    ),
    Fault(
        "indexes-missing",
        "Calls without indexes",
        _deltas(
            [_delta("", "ls", id="call_1")],
            [_delta(A + B + C)],
            [_delta("", "glob", id="call_2")],
            [_delta(D)],
            [_delta(E + F)],
            calls=BOTH,
        ),
    ),
    Fault(
        "indexes-reused",
        "Two calls under index 0, told apart by their ids",
        _deltas(
            [_delta(A + B + C, "ls", index=0, id="call_1")],
            [_delta(D + E + F, "glob", index=0, id="call_2")],
            calls=BOTH,
        ),
    ),
    Fault(
        "interleaved",
        "Two calls whose pieces alternate",
        _deltas(
            [_delta("", "ls", index=0, id="call_1"), _delta("", "glob", index=1, id="call_2")],
            [_delta(D, index=1)],
            [_delta(A, index=0), _delta(E, index=1)],
            [_delta(B, index=0)],
            [_delta(F, index=1), _delta(C, index=0)],
            calls=BOTH,
        ),
    ),
    Fault(
        "name-in-pieces",
        "The name comes in pieces",
        _deltas(
            [_delta("", "gl", index=0, id="call_2")],
            [_delta("", "ob", index=0)],
            [_delta(D + E + F, index=0)],
            calls=(SECOND,),
        ),
    ),
    Fault(
        "name-grows",
        "Each piece of the name holds the ones before",
        _deltas(
            [_delta("", "gl", index=0, id="call_2")],
            [_delta(D, "glob", index=0)],
            [_delta(E + F, index=0)],
            calls=(SECOND,),
        ),
    ),
    Fault(
        "name-repeated",
        "The name comes with every piece",
        _deltas(*([_delta(piece, "ls", index=0)] for piece in CALL.fragments)),
    ),
    Fault(
        "call-at-once",
        "A call in one piece, without a type",
        _deltas([_delta(A + B + C, "ls", index=0, id="call_1")]),
    ),
    Fault(
        "arguments-object",
        "The arguments are an object instead of text",
        _deltas([{"index": 0, "id": "call_1", "function": {"name": "ls", "arguments": {"path": "."}}}]),
    ),
)


def _late_start(setting: Setting) -> Behaviour | None:
    """Anthropic's blocks may interleave; each delta names its block."""
    if not setting.tools or not setting.streaming or setting.dialect != "anthropic":
        return None
    said = _said(setting, CALL, SECOND)
    frames = setting.frames(said)
    first = next(place for place, one in enumerate(frames) if one.kind == "call")
    end = next(place for place, one in enumerate(frames) if one.kind == "finish")
    blocks = frames[first:end]
    middle = len(blocks) // 2
    woven: list[Frame] = [one for pair in zip(blocks[:middle], blocks[middle:], strict=True) for one in pair]
    return Behaviour(setting.of_frames([*frames[:first], *woven, *frames[end:]]), good(setting, said))


FAULTS = (
    Fault("plain", "Nothing is wrong", lambda setting: Behaviour(setting.reply(), good(setting))),
    Fault("two-calls", "Two calls in one reply", _calls(CALL, SECOND)),
    Fault("calls-only", "A call without a word", _calls_only),
    Fault("half-arguments", "Half the arguments, and the reply is called whole", _unparsable(CALL.fragments[:2])),
    Fault("no-json-arguments", "Arguments that are no JSON", _unparsable(('{"path": ', "here}"))),
    Fault("array-arguments", "Arguments that are no object", _unparsable(('["', '."]'))),
    Fault("no-arguments", "Nothing where {} belongs", _no_arguments),
    Fault("unknown-tool", "A tool that was not offered", _unknown_tool),
    Fault("woven-blocks", "Anthropic's blocks of two calls alternate", _late_start),
    *CHAT_FAULTS,
)
