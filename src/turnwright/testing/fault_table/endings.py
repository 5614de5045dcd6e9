"""Replies that end otherwise than by `stop`, and usage in odd places (P5, K13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from turnwright.schema.verdicts import StopReason, Verdict
from turnwright.testing.dialects.said import Frame, Said, json_bytes
from turnwright.testing.exchange import whole
from turnwright.testing.fault_table.case import (
    CALL,
    TEXT,
    Behaviour,
    Expected,
    Fault,
    Setting,
    good,
)

Make: TypeAlias = Callable[[Setting], Behaviour | None]

REFUSED = ("I cannot ", "help with that.")


def _ends(setting: Setting, said: Said, verdict: Verdict, ends: StopReason, answer: str | None) -> Expected:
    return msgspec.structs.replace(
        good(setting, said), verdict=verdict, calls=(), finish=said.finish, requests=1, ends=ends, answer=answer
    )


def _length(setting: Setting) -> Behaviour:
    """With tools: the arguments are whole by luck, but a cut reply's calls are never run."""
    said = msgspec.structs.replace(setting.said, finish="length")
    return Behaviour(setting.reply(said), _ends(setting, said, "length", "length", "".join(said.text)))


def _length_in_arguments(setting: Setting) -> Behaviour | None:
    if not setting.tools or setting.dialect not in ("openai-chat", "openai-responses"):
        return None
    half = msgspec.structs.replace(CALL, fragments=CALL.fragments[:2])
    said = msgspec.structs.replace(setting.said, finish="length", calls=(half,))
    return Behaviour(setting.reply(said), _ends(setting, said, "length", "length", "".join(said.text)))


def _filtered(setting: Setting) -> Behaviour | None:
    if setting.tools or setting.dialect == "ollama":
        return None
    said = Said(text=TEXT[:2], finish="content_filter")
    return Behaviour(setting.reply(said), _ends(setting, said, "refused", "refused", None))


def _refused(setting: Setting) -> Behaviour | None:
    """Words of a refusal, apart from the text."""
    if setting.tools or not setting.dialect.startswith("openai"):
        return None
    said = Said(refusal=REFUSED)
    return Behaviour(setting.reply(said), _ends(setting, said, "refused", "refused", None))


def _prompt_blocked(setting: Setting) -> Behaviour | None:
    """Gemini refuses before it answers, without a candidate."""
    if setting.dialect != "gemini" or setting.tools:
        return None
    body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 11}}
    expected = Expected(verdict="refused", finish="content_filter", ends="refused")
    if setting.streaming:
        return Behaviour(setting.of_frames([Frame("finish", json_bytes(body))]), expected)
    return Behaviour(whole(200, "application/json", json_bytes(body)), expected)


def _reasoning_only(setting: Setting) -> Behaviour | None:
    if setting.tools:
        return None
    said = Said(reasoning=("Let me ", "think."))
    return Behaviour(setting.reply(said), _ends(setting, said, "reasoning_only", "provider-error", None))


def _reasoning_first(setting: Setting) -> Behaviour:
    said = msgspec.structs.replace(setting.said, reasoning=("Let me ", "think."))
    return Behaviour(setting.reply(said), good(setting, said))


def _no_usage(setting: Setting) -> Behaviour:
    said = msgspec.structs.replace(setting.said, usage=None)
    return Behaviour(setting.reply(said), good(setting))


def _frames(change: Callable[[list[Frame]], list[Frame]], *dialects: str) -> Make:
    """The good stream with its frames rearranged."""

    def make(setting: Setting) -> Behaviour | None:
        if not setting.streaming or (dialects and setting.dialect not in dialects):
            return None
        return Behaviour(setting.of_frames(change(setting.frames())), good(setting))

    return make


def _twice(kind: str) -> Callable[[list[Frame]], list[Frame]]:
    return lambda frames: [copy for one in frames for copy in ([one, one] if one.kind == kind else [one])]


def _without(kind: str) -> Callable[[list[Frame]], list[Frame]]:
    return lambda frames: [one for one in frames if one.kind != kind]


def _done_without_finish(setting: Setting) -> Behaviour | None:
    """[DONE] or message_stop is a terminal frame by itself."""
    if not setting.streaming or setting.dialect not in ("openai-chat", "anthropic"):
        return None
    frames = _without("finish")(setting.frames())
    return Behaviour(setting.of_frames(frames), msgspec.structs.replace(good(setting), finish=None))


def _stop_with_calls(setting: Setting) -> Behaviour | None:
    """Some hosts say `stop` although there are calls: the calls count."""
    if not setting.tools or setting.dialect not in ("openai-chat", "anthropic"):
        return None
    said = msgspec.structs.replace(setting.said, finish="stop")
    return Behaviour(setting.reply(said), msgspec.structs.replace(good(setting), finish=None))


FAULTS = (
    Fault("length", "Cut at the output limit", _length),
    Fault("length-in-arguments", "Cut at the output limit inside a call", _length_in_arguments),
    Fault("filtered", "Ended by a content filter", _filtered),
    Fault("refused", "A refusal in its own field", _refused),
    Fault("prompt-blocked", "The prompt was blocked", _prompt_blocked),
    Fault("reasoning-only", "Thinking and no answer", _reasoning_only),
    Fault("reasoning-first", "Thinking before the answer", _reasoning_first),
    Fault("no-usage", "No usage is reported", _no_usage),
    Fault("finish-twice", "The finish comes twice", _frames(_twice("finish"))),
    Fault("usage-twice", "The usage comes twice", _frames(_twice("usage"), "openai-chat")),
    Fault("no-done", "A finish without the last frame", _frames(_without("done"), "openai-chat", "anthropic")),
    Fault("done-without-finish", "The last frame without a finish", _done_without_finish),
    Fault("stop-with-calls", "Calls, and the finish says stop", _stop_with_calls),
)
