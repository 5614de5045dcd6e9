"""The decision about a call: pure, from the call, the rules and what confines it. It names the segment and the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.schema.permissions import Action, Rule, RuleLayer
from turnwright.schema.sandbox import UNCONFINED, Confinement
from turnwright.schema.verdicts import Effect
from turnwright.session.permissions.levels import by_level
from turnwright.session.permissions.matching import matches, means
from turnwright.session.permissions.risk import RISKY, Risk, risk_of
from turnwright.session.permissions.segments import GRAVITY, Ground, Kind, Segment
from turnwright.session.permissions.suggest import suggested
from turnwright.session.permissions.tool_segments import call_segments

_STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision rests on besides the call."""

    autonomy: int = 2
    layers: tuple[RuleLayer, ...] = ()
    """Weakest first; those that only narrow are applied last, whatever their place."""
    hosts: tuple[str, ...] = ()
    confinement: Confinement = UNCONFINED
    given: frozenset[str] = frozenset()
    """Tools that the program itself brought along: its own code, which it vouches for."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One segment and what was decided about it."""

    segment: Segment
    action: Action
    rule: str
    """The rule and its place, or the level of autonomy with its reason."""
    by_level: bool = True


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    action: Action
    tool: str
    segment: str
    """The piece of the call that decided."""
    kind: Kind
    rule: str
    why: str = ""
    always: tuple[Rule, ...] = ()
    """What would let this and its like pass from now on; empty where nothing should."""
    risk: Risk | None = None
    more_than_two: bool = False
    """It passes because the level is 3 or 4: on level 2 it would not."""
    judged: tuple[Judged, ...] = ()


def decide(policy: Policy, tool: str, effect: Effect, arguments: Mapping[str, Any], ground: Ground) -> Decision:
    segments = call_segments(tool, effect, arguments, ground, given=tool in policy.given)
    judged = tuple(_judged(policy, tool, segment) for segment in segments)
    first = max(judged, key=lambda one: (_STRICTNESS[one.action], GRAVITY.index(one.segment.kind)))
    asked = [one for one in judged if one.action == "ask"]
    risk = risk_of(tool, arguments) if tool in RISKY else None
    decision = Decision(
        action=first.action,
        tool=tool,
        segment=first.segment.shown,
        kind=first.segment.kind,
        rule=first.rule,
        why=first.segment.why,
        always=suggested(tool, [one.segment for one in asked]) if first.action == "ask" else (),
        risk=risk,
        more_than_two=first.action == "allow" and policy.autonomy > 2 and _more_than_two(policy, judged),
        judged=judged,
    )
    if risk is not None and risk.tier == "critical" and policy.autonomy < 4 and first.action == "allow":
        rule = f"autonomy {policy.autonomy}: a patch of critical risk ({risk.score} of 100) needs a yes"
        return msgspec.structs.replace(decision, action="ask", rule=rule, why=risk.said, always=(), more_than_two=False)
    return decision


def _more_than_two(policy: Policy, judged: Sequence[Judged]) -> bool:
    return any(
        one.by_level and by_level(one.segment, 2, policy.confinement, policy.hosts)[0] != "allow" for one in judged
    )


def _judged(policy: Policy, tool: str, segment: Segment) -> Judged:
    action, why = by_level(segment, policy.autonomy, policy.confinement, policy.hosts)
    best = Judged(segment=segment, action=action, rule=why)
    for layer in sorted(policy.layers, key=lambda one: one.narrows):
        found = _of_layer(layer, tool, segment)
        if found is None:
            continue
        said, rule, surely = found
        stricter = _STRICTNESS[said] > _STRICTNESS[best.action]
        if stricter or (surely and not layer.narrows):
            where = layer.where or layer.name
            shown = (
                f"rule `{rule}` ({where})" if surely else f"rule `{rule}` ({where}) may mean it, which nobody can tell"
            )
            best = Judged(segment=segment, action=said, rule=shown, by_level=False)
    return best


def _of_layer(layer: RuleLayer, tool: str, segment: Segment) -> tuple[Action, Rule, bool] | None:
    """The last rule that means it. One that may mean it asks, whatever it says: nobody can tell."""
    for rule in reversed(layer.rules):
        if not matches(rule.tool, tool):
            continue
        match means(rule.pattern, rule.action == "allow", segment.text, segment.also, segment.kind != "unparsed"):
            case "yes":
                return rule.action, rule, True
            case "maybe":
                return "ask", rule, False
            case "no":
                pass
    return None
