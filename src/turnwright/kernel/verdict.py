"""What became of an attempt (P5), from what was said and how the bytes ended."""

from __future__ import annotations

from typing import assert_never

from turnwright.kernel.assemble import Reply
from turnwright.schema.parts import Closed
from turnwright.schema.verdicts import Verdict


def verdict_of(reply: Reply, closed: Closed) -> Verdict:
    """Nothing is complete by hope: without a finish reason or a terminal frame the best verdict is `truncated`."""
    whole = reply.done or reply.finish is not None
    match closed.how:
        case "http_error" | "interstitial" | "non_json":
            return closed.how
        case "stall" | "transport" if not whole and reply.error is None:
            return closed.how
        case "eof" | "stall" | "transport" | "too_large":
            # After a finish reason the answer is here: what the connection did next does not unsay it.
            return _verdict_of_words(reply) if whole else _verdict_of_a_torso(reply)
        case _:
            assert_never(closed.how)


def _verdict_of_a_torso(reply: Reply) -> Verdict:
    return "in_band_error" if reply.error else "truncated"


def _verdict_of_words(reply: Reply) -> Verdict:
    message = reply.message
    if reply.error or reply.finish == "error":
        return "in_band_error"
    if reply.unreadable:
        return "non_json"  # a piece of the answer is missing, and nobody can tell which
    if reply.finish == "length":
        return "length"
    if reply.finish == "content_filter" or (reply.refusal and not message.text and not message.calls):
        return "refused"
    if message.calls:
        return "malformed_call" if any(call.problem for call in message.calls) else "tool_calls"
    if reply.is_broken_call and message.text.strip():
        return "malformed_call"
    if message.text.strip() or reply.others:
        return "complete"
    return "reasoning_only" if message.reasoning else "empty"
