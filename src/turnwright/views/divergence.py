"""Where two recordings of the same thing part: which fact, which field, what each says.

What was measured is not compared, for no two runs take the same time: durations, `timing`, counts of bytes on the wire,
and where payloads are kept. What they hold is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.schema.facts import AttemptEnded, ContextCompacted, Fact, Note, ToolEnded, TurnStarted
from turnwright.schema.ids import ConversationId, Seq
from turnwright.views.text import Line, Span, line, one_line

SHOWN_CHARS = 160
LEAD_CHARS = 40
"""How much of a long text is shown before the place where it differs."""
NOTHING = "(nothing)"


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference. `recorded` and `replayed` are what each side says of `field`, as JSON-like values."""

    conversation_id: ConversationId
    seq: Seq
    type: str
    field: str
    recorded: Any
    replayed: Any


def measured_alike(fact: Fact, recorded: Fact) -> Fact:
    """`fact` with what was measured taken from `recorded`, where both are of a kind."""
    match fact, recorded:
        case AttemptEnded(), AttemptEnded():
            fault = fact.fault
            if fault is not None and recorded.fault is not None:
                fault = msgspec.structs.replace(fault, retry_after_s=recorded.fault.retry_after_s)
            return msgspec.structs.replace(
                fact,
                timing=recorded.timing,
                bytes_in=recorded.bytes_in,
                capture=recorded.capture,
                cost_estimated=recorded.cost_estimated,  # recordings from before that was said
                repairs=recorded.repairs,  # a reply that is made from facts is right already
                fault=fault,
            )
        case ToolEnded(), ToolEnded():
            return msgspec.structs.replace(fact, duration_ms=recorded.duration_ms)
        case ContextCompacted(), ContextCompacted():  # what waits in the inbox is not the loop's to know
            return msgspec.structs.replace(fact, waiting=recorded.waiting, route=recorded.route, task=recorded.task)
        case TurnStarted(), TurnStarted() if not recorded.rules:
            return msgspec.structs.replace(fact, rules={})  # recorded before turns said by which rules they run
        case Note(code="turn-resumed"), Note(code="turn-resumed") if not recorded.data:
            return msgspec.structs.replace(fact, data={})
        case _:
            return fact


def difference(
    conversation_id: ConversationId, seq: Seq, recorded: Fact | None, replayed: Fact | None
) -> Divergence | None:
    """None where they say the same. One side may have nothing to say."""
    if recorded is not None and replayed is not None:
        replayed = measured_alike(replayed, recorded)
        if replayed == recorded:
            return None
    before, after = _plain(recorded), _plain(replayed)
    if recorded is None or replayed is None or type(recorded) is not type(replayed):
        kinds = _kind(recorded), _kind(replayed)
        return Divergence(
            conversation_id=conversation_id,
            seq=seq,
            type=kinds[0] if recorded is not None else kinds[1],
            field="",
            recorded=before,
            replayed=after,
        )
    field, one, other = _first(before, after)
    return Divergence(
        conversation_id=conversation_id, seq=seq, type=_kind(recorded), field=field, recorded=one, replayed=other
    )


def _plain(fact: Fact | None) -> Any:
    return None if fact is None else msgspec.to_builtins(fact)


def _kind(fact: Fact | None) -> str:
    return "" if fact is None else str(fact.__struct_config__.tag)


def _first(one: Any, other: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first place where two values differ, and what is there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in [*one, *(name for name in other if name not in one)]:
            if one.get(name) != other.get(name):
                return _first(one.get(name), other.get(name), f"{path}.{name}" if path else str(name))
    if _is_list(one) and _is_list(other) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            if pair[0] != pair[1]:
                return _first(*pair, f"{path}[{number}]")
    return path, one, other


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def divergence_lines(found: Divergence) -> list[Line]:
    """For people: the place, then both sides, with a mark under the first character that differs."""
    what = f"{found.type}, {found.field}" if found.field else found.type
    recorded, replayed, at = _cut(_said(found.recorded), _said(found.replayed))
    lines = [
        line(Span(f"{found.conversation_id}:{found.seq}", "heading"), f" differs: {what}"),
        line("  recorded  ", Span(recorded, "bad")),
        line("  replayed  ", Span(replayed, "good")),
    ]
    if at is not None:
        lines.append(line("            " + " " * at + "^"))
    return lines


def _said(value: Any) -> str:
    if value is None:
        return NOTHING
    return one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _cut(one: str, other: str) -> tuple[str, str, int | None]:
    """Both sides round the first character that differs."""
    if NOTHING in (one, other):
        return one[:SHOWN_CHARS], other[:SHOWN_CHARS], None
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - LEAD_CHARS)
    head = "…" if start else ""
    return (
        head + one[start : start + SHOWN_CHARS],
        head + other[start : start + SHOWN_CHARS],
        at - start + len(head),
    )
