"""Other rules on a conversation that is over: which questions would not have been put, which denials would appear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.facts import ApprovalAnswered, ApprovalAsked, ModelReplied, Note, Recorded, ToolEnded
from turnwright.schema.ids import CallId, Seq
from turnwright.schema.permissions import Action
from turnwright.schema.verdicts import Effect
from turnwright.session.permissions.decide import Decision, Policy, decide
from turnwright.session.permissions.segments import Ground

Then: TypeAlias = Literal["ran", "asked", "denied", "unfit"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the conversation, what became of it, and what these rules say."""

    seq: Seq
    tool: str
    segment: str
    then: Then
    answer: str
    now: Action
    rule: str

    @property
    def change(self) -> Literal["", "question gone", "new question", "new denial", "denial gone"]:
        match self.then, self.now:
            case ("ran" | "asked", "deny"):
                return "new denial"
            case ("asked", "allow"):
                return "question gone"
            case ("ran", "ask"):
                return "new question"
            case ("denied", "allow" | "ask"):
                return "denial gone"
            case _:
                return ""


def backtest_rules(
    facts: Iterable[Recorded], policy: Policy, effects: Mapping[str, Effect], ground: Ground
) -> Iterator[Call]:
    """In the order of the calls. Calls that were never fit to run are left out."""
    facts = list(facts)
    became = _became(facts)
    for recorded in facts:
        if not isinstance(recorded.fact, ModelReplied):
            continue
        for call in recorded.fact.message.calls:
            then, answer = became.get(call.id, ("ran", ""))
            arguments = _arguments(call.arguments)
            if then == "unfit" or arguments is None:
                continue
            decision: Decision = decide(policy, call.name, effects.get(call.name, "runs"), arguments, ground)
            yield Call(
                seq=recorded.seq,
                tool=call.name,
                segment=decision.segment,
                then=then,
                answer=answer,
                now=decision.action,
                rule=decision.rule,
            )


def _became(facts: Iterable[Recorded]) -> dict[CallId, tuple[Then, str]]:
    became: dict[CallId, tuple[Then, str]] = {}
    for recorded in facts:
        fact = recorded.fact
        match fact:
            case ApprovalAsked(tool=tool, call_id=str(call_id)) if tool:
                became[call_id] = "asked", ""
            case ApprovalAnswered(call_id=str(call_id)) if call_id in became:
                became[call_id] = "asked", fact.answer or fact.by
            case Note(code="denied", call_id=str(call_id)):
                became[call_id] = "denied", ""
            case ToolEnded(outcome="refused", call_id=str(call_id)) if call_id not in became:
                became[call_id] = "unfit", ""
            case _:
                pass
    return became


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return None
