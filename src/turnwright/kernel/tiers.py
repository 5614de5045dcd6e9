"""Which tier a message is given to, and when a run moves to another. Pure: the same request and the same facts always
come to the same tier, and every move is a note with its signals."""

from __future__ import annotations

import re

import msgspec

from turnwright.kernel.task_class import task_class_of
from turnwright.schema.facts import AttemptEnded, Fact, GuardTripped, Note, StepStarted, ToolEnded, Unknown
from turnwright.schema.ids import TurnId
from turnwright.schema.tiers import TIERS, Tier, Tiers

CHOSEN, OFF, WARNING = "tier", "tiers-off", "tier-warning"
"""Codes of the notes."""
FORCED_TURNS = 5
NOT_EVIDENCE = frozenset({"injection", "tool_budget", "preconditions"})
"""Guards that say nothing about how able a model is."""

SHORT_WORDS = 12
LONG_CHARS = 1_500
PATHS_MANY = 4
HARD = frozenset(
    (
        "algorithm", "architecture", "concurrency", "concurrent", "corrupt", "corruption", "crash", "crashes",
        "deadlock", "debug", "design", "diagnose", "flaky", "hang", "hangs", "intermittent", "investigate", "leak",
        "migrate", "migration", "optimise", "optimize", "performance", "proof", "prove", "race", "redesign", "refactor",
        "rewrite", "security", "segfault", "slow", "subtle", "throughput", "vulnerability", "why",
    )
)  # fmt: skip
EASY_WORK = frozenset(("bump", "comment", "format", "indent", "rename", "spelling", "typo"))
EASY_QUESTIONS = frozenset(("count", "hello", "hi", "list", "show", "thanks", "what", "when", "where", "which", "who"))
TRACES = ("traceback (most recent call last)", "segmentation fault", "panicked at", "stack trace", "assertionerror")
_WORD = re.compile(r"[a-z][a-z'-]{0,40}")
_PATH = re.compile(r"[\w./-]{1,200}\.[a-z]{1,4}\b")


class Picked(msgspec.Struct, frozen=True):
    tier: Tier
    signals: tuple[str, ...]


def picked_for(request: str) -> Picked:
    """Hard words, a stack trace, length and many files speak for the reasoner; brevity and easy words for the light
    one; everything else is usual work."""
    text = request.lower()
    words = _WORD.findall(text[:20_000])
    hard = {word: 2 for word in words if word in HARD}
    acts = task_class_of(request).task_class == "action"
    easy = {word: 1 for word in words if word in (EASY_WORK if acts else EASY_QUESTIONS)}
    for trace in TRACES:
        if trace in text:
            hard[trace] = 2
    if len(request) > LONG_CHARS:
        hard["long"] = 1
    if len(set(_PATH.findall(text[:20_000]))) >= PATHS_MANY:
        hard["many files"] = 1
    if len(words) <= SHORT_WORDS:
        easy["short"] = 1
    if sum(hard.values()) >= 3:
        return Picked("reasoner", _said(hard))
    if not hard and sum(easy.values()) >= 2:
        return Picked("light", _said(easy))
    return Picked("coder", _said(hard) if hard else ("usual work",))


def _said(points: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{signal} +{worth}" for signal, worth in points.items())[:6]


class Standing(msgspec.Struct, kw_only=True):
    """A fold over the facts of one turn: its tier, and what has spoken against it since it was taken."""

    tier: Tier | None = None
    base: Tier | None = None
    """What the request was given to at first."""
    off: bool = False
    warned: bool = False
    failed: int = 0
    refused: int = 0
    tripped: str = ""
    calm: int = 0
    """Steps in a row without any of that."""

    def apply(self, fact: Fact | Unknown) -> None:
        match fact:
            case Note(code="tier", data={"tier": ("light" | "coder" | "reasoner") as tier, "first": first}):
                self.base = tier if first else self.base
                self._begin(tier)
            case Note(code="tiers-off"):
                self.tier, self.off = None, True
            case Note(code="tier-warning"):
                self.warned = True
            case StepStarted():
                self.calm += 1
            case ToolEnded(outcome="refused") if not fact.detail.get("guard"):
                self.refused, self.calm = self.refused + 1, 0
            case ToolEnded(detail={"exit_code": int(code)}) if code != 0:
                self.failed, self.calm = self.failed + 1, 0
            case ToolEnded(detail={"exit_code": 0}):
                self.failed = 0
            case AttemptEnded(verdict="malformed_call"):
                self.calm = 0
            case GuardTripped(guard=guard) if guard not in NOT_EVIDENCE:
                self.tripped, self.calm = guard, 0
            case _:
                pass

    def _begin(self, tier: Tier) -> None:
        self.tier = tier
        self.failed = self.refused = self.calm = 0
        self.tripped = ""


def first_notes(
    tiers: Tiers, standing: Standing, request: str, carried: Tier | None, route: str, turn_id: TurnId | None
) -> list[Note]:
    """What a turn begins with. `carried` is the tier to which the turn had come that it carries on. `route` is where
    the conversation's last attempt went: where that is a fallback, a provider has failed, and whoever has found an
    answer somewhere is not sent away again."""
    if standing.tier is not None or standing.off:
        return []
    if route in tiers.fallbacks and route not in {tiers.route(tier) for tier in TIERS}:
        return [_off(route, turn_id)]
    if tiers.forced is None and carried is not None:
        return [_moved(carried, None, f"{carried}: as in the turn that is carried on", turn_id)]
    if tiers.forced is None:
        found = picked_for(request)
        return [_moved(found.tier, None, f"{found.tier}: {', '.join(found.signals)}", turn_id)]
    notes = [_moved(tiers.forced, None, f"{tiers.forced}: forced by tiers.force", turn_id)]
    if tiers.forced == "reasoner" and tiers.forced_turns + 1 == FORCED_TURNS:
        text = (
            f"{FORCED_TURNS} turns in a row were forced to the reasoner tier, the dearest: is tiers.force still meant?"
        )
        notes.append(Note(turn_id=turn_id, code=WARNING, text=text, data={"turns": FORCED_TURNS}))
    return notes


def next_note(tiers: Tiers, standing: Standing, route: str, turn_id: TurnId | None) -> Note | None:
    """Between two steps: up where the run does not go well, back where it does again, and off once a provider has
    failed and another had to answer."""
    tier = standing.tier
    if tier is None:
        return None
    if route and route != tiers.route(tier):
        return _off(route, turn_id)
    if tiers.forced is not None:
        return None
    place = TIERS.index(tier)
    why = _against(standing, tiers.escalate_at)
    if why and place + 1 < len(TIERS):
        return _moved(TIERS[place + 1], tier, f"{tier} → {TIERS[place + 1]}: {why}", turn_id)
    if (
        not why
        and standing.base is not None
        and place > TIERS.index(standing.base)
        and standing.calm >= tiers.calm_steps
    ):
        return _moved(TIERS[place - 1], tier, f"{tier} → {TIERS[place - 1]}: {standing.calm} steps went well", turn_id)
    return None


def _against(standing: Standing, at: int) -> str:
    if standing.tripped:
        return f"the guard {standing.tripped} tripped"
    if standing.failed >= at:
        return f"{standing.failed} commands failed"
    return f"{standing.refused} calls could not be executed" if standing.refused >= at else ""


def _moved(tier: Tier, before: Tier | None, why: str, turn_id: TurnId | None) -> Note:
    return Note(turn_id=turn_id, code=CHOSEN, text=why, data={"tier": tier, "before": before, "first": before is None})


def _off(route: str, turn_id: TurnId | None) -> Note:
    return Note(
        turn_id=turn_id,
        code=OFF,
        text=f"{route} had to answer in place of a tier's model, so no tier is chosen any more",
        data={"route": route},
    )


def asked_to_think(explicit: bool | None, tier: Tier | None, able: bool | None) -> bool | None:
    """Whether to say anything about thinking to a model. What the user wants is said, unless the model is known not to
    think; a tier's wish only where it is known to."""
    if explicit is not None:
        return None if able is False else explicit
    if able is not True:
        return None
    match tier:
        case "reasoner":
            return True
        case "light":
            return False
        case _:
            return None
