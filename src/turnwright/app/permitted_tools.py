"""Tools that are asked for permission before they run (X3). The decision is `session.permissions`; what it rests on is
gathered here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from turnwright.app.always_rules import AlwaysRules
from turnwright.config.load import Loaded
from turnwright.kernel.ports import Ask, Question, ToolContext, Tools
from turnwright.schema.facts import Note
from turnwright.schema.permissions import Permissions, Rule, RuleLayer
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.sandbox import Confinement
from turnwright.schema.tools import Asks, Ready, ToolOutcome, Unfit
from turnwright.schema.verdicts import Effect

if TYPE_CHECKING:
    from turnwright.session.permissions.decide import Decision, Policy

ONCE = "once"
NO = "no"
WARNS_BELOW = 3
"""From this autonomy on a patch of high risk is nobody's surprise."""


class RealGround:
    """`session.permissions.segments.Ground`: links are followed, as the command would."""

    def __init__(self, workspace: Path) -> None:
        self._root = os.path.realpath(workspace)

    def inside(self, path: str) -> bool:
        if path.startswith("~"):
            return False
        try:
            real = os.path.realpath(os.path.join(self._root, path))  # noqa: PTH118 - as text: it may be no path at all
        except (OSError, ValueError):
            return False
        return real == self._root or real.startswith(f"{self._root}{os.sep}")


class Permits:
    """The policy of one session. `always` adds to it while it runs, and for the next time."""

    def __init__(
        self,
        permissions: Permissions,
        layers: tuple[RuleLayer, ...],
        confinement: Callable[[], Confinement],
        workspace: Path,
        *,
        given: frozenset[str] = frozenset(),
        always: AlwaysRules,
    ) -> None:
        self._permissions = permissions
        # What was answered with always stands behind the user's own file, and before what is said for this run alone.
        self._early = tuple(each for each in layers if each.name in ("user", "project"))
        self._late = tuple(each for each in layers if each.name not in ("user", "project"))
        self._confinement = confinement
        self._given = given
        self._always = always
        self._ground = RealGround(workspace)
        self._offered: dict[str, tuple[Rule, ...]] = {}
        self._policy: tuple[RuleLayer, Confinement, Policy] | None = None
        """The last one, and what it was made of: of the rest nothing changes."""

    @property
    def autonomy(self) -> int:
        return self._permissions.autonomy

    def decide(self, tool: str, effect: Effect, arguments: dict[str, Any]) -> Decision:
        from turnwright.session.permissions.decide import (
            decide,  # its tables cost milliseconds; the first call needs them
        )

        return decide(self.policy(), tool, effect, arguments, self._ground)

    def policy(self) -> Policy:
        always, confinement = self._always.layer(), self._confinement()
        if self._policy is not None and self._policy[:2] == (always, confinement):
            return self._policy[2]
        from turnwright.session.permissions.decide import Policy

        policy = Policy(
            autonomy=self._permissions.autonomy,
            layers=(*self._early, always, *self._late),
            hosts=self._permissions.hosts,
            confinement=confinement,
            given=self._given,
        )
        self._policy = always, confinement, policy
        return policy

    def asks(self, decision: Decision, arguments: dict[str, Any]) -> Asks:
        always = _always(decision.always)
        if always:
            self._offered[always] = decision.always
        choices = (ONCE, *([always] if always else []), NO)
        return Asks(
            arguments=arguments,
            question=_question(decision),
            choices=choices,
            grants=choices[:-1],
            segment=decision.segment,
            rule=decision.rule,
            remedy=_remedy(decision),
        )

    def asking(self, ask: Ask) -> Ask:
        """The same question, and what follows from an `always`."""

        async def asked(question: Question) -> str | None:
            answer = await ask(question)
            if question.tool and answer is not None and answer in self._offered:
                self._always.add(self._offered[answer])
            return answer

        return asked


class PermittedTools:
    """`kernel.ports.Tools` over others."""

    def __init__(self, tools: Tools, permits: Permits) -> None:
        self._tools = tools
        self._permits = permits
        self._effects: dict[str, Effect] = {}

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        offered = self._tools.offered(mode)
        self._effects.update((spec.name, spec.effect) for spec in offered)
        return offered

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        checked = self._tools.check(name, arguments)
        if isinstance(checked, Unfit):
            return checked
        decision = self._permits.decide(name, self._effects.get(name, "runs"), checked.arguments)
        match decision.action:
            case "allow" if isinstance(checked, Ready):
                return Ready(checked.arguments, checked.note or _note(decision, self._permits.autonomy))
            case "allow" | "ask" if isinstance(checked, Asks):
                return checked  # the tool asks for itself, and one question is enough
            case "ask":
                asks = self._permits.asks(decision, checked.arguments)
                return msgspec.structs.replace(asks, settled=lambda: self._settled(name, checked.arguments))
            case _:
                said = f"not executed: {decision.tool} may not: {decision.segment} ({decision.rule})"
                return Unfit(f"{said}. Do it another way, or say why it is needed.", _said("denied", decision, said))

    def _settled(self, name: str, arguments: dict[str, Any]) -> Ready | None:
        decision = self._permits.decide(name, self._effects.get(name, "runs"), arguments)
        return Ready(arguments, _note(decision, self._permits.autonomy)) if decision.action == "allow" else None

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return await self._tools.run(name, arguments, context)


def _note(decision: Decision, autonomy: int) -> Note | None:
    """For the record, and for the user's eyes where a patch is risky."""
    risk = decision.risk
    if decision.more_than_two:
        return _said("permitted", decision, f"{decision.tool} may: {decision.segment} ({decision.rule})")
    if risk is not None and risk.tier in ("high", "critical") and autonomy < WARNS_BELOW:
        return _said("risk", decision, f"{decision.tool} {decision.segment}: {risk.said}")
    return None


def _said(code: str, decision: Decision, text: str) -> Note:
    data: dict[str, str | int | float | bool | None] = {
        "tool": decision.tool,
        "segment": decision.segment,
        "kind": decision.kind,
        "rule": decision.rule,
    }
    if decision.risk is not None:
        data |= {"risk": decision.risk.score, "tier": decision.risk.tier}
    return Note(code=code, text=text, data=data)


def _question(decision: Decision) -> str:
    lines = [f"May {decision.tool} do this?  {decision.segment}"]
    if decision.why:
        lines.append(f"  {decision.why}")
    lines.append(f"  asked by {decision.rule}")
    if decision.risk is not None and decision.risk.tier != "low" and decision.risk.said != decision.why:
        lines.append(f"  {decision.risk.said}")
    return "\n".join(lines)


def _always(rules: tuple[Rule, ...]) -> str:
    return f"always (adds {'; '.join(f'`{rule}`' for rule in rules)})" if rules else ""


def _remedy(decision: Decision) -> str:
    said = f"It was asked about because of {decision.rule}. The user can allow it beforehand: "
    if decision.always:
        rules = "; ".join(
            f'{{tool: {rule.tool}, pattern: "{rule.pattern}", action: allow}}' for rule in decision.always
        )
        said += f"permissions.rules {rules}, or "
    return (
        f"{said}--autonomy 4, or a sandbox (`turnwright doctor`)" if decision.kind == "runs" else f"{said}--autonomy 4"
    )


def permits_for(
    loaded: Loaded,
    workspace: Path,
    confinement: Callable[[], Confinement],
    *,
    named: Permissions | None = None,
    given: frozenset[str] = frozenset(),
) -> Permits:
    """`named`: by the program, in place of the settings. `given`: its own tools, which it vouches for."""
    layers = loaded.rules if named is None else (*loaded.rules, RuleLayer(name="program", rules=named.rules))
    permissions = loaded.settings.permissions if named is None else named
    always = AlwaysRules(loaded.folders.always, workspace)
    return Permits(permissions, layers, confinement, workspace, given=given, always=always)
