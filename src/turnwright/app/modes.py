"""The modes of a conversation, as they are configured: what each offers, what the model is told in it, and their order.
Whatever is wrong with them is found out before anything begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from turnwright.kernel.guards.completion import TOOL
from turnwright.schema.errors import ConfigError
from turnwright.schema.modes import EVERY_EFFECT, Course, Offer
from turnwright.schema.settings import ModeSettings, Settings

USUAL = "build"
PLAIN = "plain"

OFFERS: Mapping[str, Offer] = {
    "plan": Offer(frozenset({"reads"})),
    USUAL: Offer(),
    "compact": Offer(names=()),
}
"""The modes that there are without any configuration."""

PACKS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {
        "plan": "You are in plan mode: you can look at everything and change nothing. Answer with a plan.",
        "compact": "You are in compact mode: no tool is offered. Answer with a summary from which somebody who has not "
        "seen this conversation can go on: what was asked, what was done and in which files, what was found, what was "
        "seen to work and by which command, and what is left.",
    },
    "skeleton-early": {
        "plan": "You are in plan mode: you can look at everything and change nothing. Answer with a plan in these "
        "parts, each as short as it can be:\n"
        "1. Goal: what will be true when the task is done, and the command that shows it.\n"
        "2. Skeleton: the smallest change that runs from end to end, even if most of it is still empty, with the files "
        "it touches and the command that shows that it runs. It comes first.\n"
        "3. Filling in: the rest, in steps that each leave the skeleton running, with file and check.\n"
        "4. Risks: what you could not find out, and at which step it will show.",
        USUAL: "Build the skeleton first: the smallest thing that runs from end to end. Run it before you fill "
        "anything in, and run it again after each step. If there is a plan in this conversation, go by it, and say "
        "where you leave it.",
    },
}
"""The prompt packs that come with Turnwright."""


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    offers: Mapping[str, Offer]
    prompts: Mapping[str, str]
    first: str
    """In which a turn begins."""
    course: Course

    @property
    def names(self) -> tuple[str, ...]:
        """Those that a turn may come to."""
        return self.course.sequence or (self.first,)

    @property
    def may_write(self) -> bool:
        return any(self.offers[name].effects - {"reads"} and self.offers[name].names != () for name in self.names)


def modes_of(settings: Settings, only: str = "") -> Modes:
    """`only` is asked for on the command line, in place of the configured sequence."""
    names = list(dict.fromkeys([*OFFERS, *settings.modes]))
    sequence = (only,) if only else settings.loop.sequence
    _check(sequence, names, "--mode" if only else "loop.sequence")
    _check([settings.prompts.mode], [*PACKS, *settings.prompts.packs], "prompts.mode")
    for pack, texts in settings.prompts.packs.items():
        _check(texts, names, f"prompts.packs.{pack}")
    course = Course(sequence=sequence, plan_turn_limit=settings.loop.plan_turn_limit) if len(sequence) > 1 else Course()
    offers = {name: _offer(name, settings.modes.get(name, ModeSettings())) for name in names}
    if settings.completion.enabled and settings.completion.tool:
        offers = {name: _with_completion(offer, bool(course.after(name))) for name, offer in offers.items()}
    return Modes(
        offers=offers,
        prompts={name: _prompt(name, settings) for name in names},
        first=sequence[0] if sequence else USUAL,
        course=course,
    )


def unknown_tools(settings: Settings, known: Iterable[str]) -> list[str]:
    """What the tools of a mode name in vain. Patterns may match nothing, and servers may come later."""
    known = frozenset(known)
    return [
        f"modes.{name}.tools names {tool!r}, and there is no such tool"
        for name, mode in settings.modes.items()
        for tool in mode.tools or ()
        if tool not in known and not tool.startswith("mcp__") and not set(tool) & set("*?[")
    ]


def _check(said: Iterable[str], known: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    known = tuple(dict.fromkeys(known))
    for name in said:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
            raise ConfigError(f"{where} names {name!r}, and there is no such {_kind(where)}.", remedy=remedy)
        if name in seen:
            raise ConfigError(f"{where} names {name!r} twice.", remedy="A turn goes through each mode once.")
        seen.add(name)


def _kind(where: str) -> str:
    return "prompt pack" if where == "prompts.mode" else "mode"


def _offer(name: str, configured: ModeSettings) -> Offer:
    base = OFFERS.get(name, Offer())
    effects = base.effects if configured.effects is None else frozenset(configured.effects)
    names = base.names if configured.tools is None else configured.tools
    if configured.effects is not None and configured.tools is None:
        names = None
    return Offer(effects & EVERY_EFFECT, names)


def _with_completion(offer: Offer, leads_on: bool) -> Offer:
    """A task is done in the last mode of its course, and can be called done in it whatever else is offered."""
    if leads_on:
        return Offer(offer.effects, offer.names, (TOOL,))
    if offer.names is None:
        return offer
    return Offer(offer.effects | {"reads"}, (*offer.names, TOOL)) if offer.names else offer


def _prompt(name: str, settings: Settings) -> str:
    configured = settings.modes.get(name, ModeSettings()).prompt
    if configured is not None:
        return configured
    chosen = settings.prompts.mode
    for pack in (settings.prompts.packs.get(chosen, {}), PACKS.get(chosen, {}), PACKS[PLAIN]):
        if name in pack:
            return pack[name]
    return ""
