"""The guards of a conversation: the built-in ones and those of installed packages, as they are configured.

A package offers one under the entry point `turnwright.guards`: its name there is its name in the configuration, and
what it names is a `Kind`. Names are listed cheaply; a guard is loaded when it is configured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from turnwright.kernel.guards import wording
from turnwright.kernel.guards.completion import TOOL
from turnwright.kernel.guards.guard_set import Chosen, GuardSet
from turnwright.kernel.guards.kind import Kind, TrippedAs
from turnwright.kernel.guards.registry import GUARDS, chosen, settings_of, thresholds
from turnwright.kernel.ports import Guards, LookInto
from turnwright.machine.port import Machine
from turnwright.schema import settings as tree
from turnwright.schema.errors import ConfigError, MachineError
from turnwright.schema.guards import Completion, GuardSettings, PluginGuard, ToolBudgetGuard
from turnwright.schema.verdicts import StopReason

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LOOKED_INTO_BYTES_MAX = 256 * 1024
GROUP = "turnwright.guards"


def guards_of(settings: tree.Settings) -> Callable[[], Guards]:
    """What makes the guards of one conversation. Whatever is wrong with their settings is found out now."""
    guards = chosen_by(settings)
    return lambda: GuardSet(guards)


def look_into(machine: Machine) -> LookInto:
    """What guards may know of the workspace's files."""

    async def text_of(path: str) -> str | None:
        try:
            content = await machine.read(path, bytes_max=LOOKED_INTO_BYTES_MAX)
        except FileNotFoundError:
            return None
        if content.stat.size > len(content.data):
            raise MachineError(f"{path} is too large to be looked into.")
        return content.data.decode("utf-8", "replace")

    return text_of


def completing(completion: Completion) -> Sequence[Callable[..., Any]]:
    """The tool by which a model says that it is done, where one is asked for."""
    if not (completion.enabled and completion.tool):
        return ()
    from turnwright.tools.complete import mark_task_complete

    return (mark_task_complete,)


def told_of(completion: Completion) -> str:
    """What the model is told of how its task ends, where a reply without a call is not enough."""
    return wording.how_it_ends(TOOL if completion.tool else "", completion.sentinel) if completion.enabled else ""


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    value: Any
    default: Any


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A guard, for whoever wants to know what it does."""

    name: str
    key: str
    enabled: bool
    watches: str
    verdicts: tuple[TrippedAs, ...]
    reasons: tuple[StopReason, ...]
    thresholds: dict[str, Threshold]
    source: str = ""
    """The package that it comes with; empty for ours."""


def listed(settings: tree.Settings) -> list[Listed]:
    """Every guard there is, in the order in which they are asked: ours, then those of installed packages."""
    rows = [_row(kind, settings_of(kind, settings.guards, settings.completion)) for kind in GUARDS]
    for name, point in sorted(installed().items()):
        plugin = settings.guards.plugins.get(name, PluginGuard(enabled=False))
        key, source = f"guards.{name}.options", _source(point)
        try:
            kind = kind_of(point)
        except ConfigError as bad:
            rows.append(_unusable(name, key, source, bad))
            continue
        own = msgspec.structs.replace(_own_settings(name, kind, plugin), enabled=plugin.enabled)
        rows.append(msgspec.structs.replace(_row(kind, own), name=name, key=key, source=source))
    return rows


def _source(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _unusable(name: str, key: str, source: str, why: ConfigError) -> Listed:
    return Listed(
        name=name,
        key=key,
        enabled=False,
        watches=f"nothing: {why}",
        verdicts=(),
        reasons=(),
        thresholds={},
        source=source,
    )


def _row(kind: Kind, settings: GuardSettings) -> Listed:
    """What the settings' fields are for, their own documentation says."""
    values, defaults = thresholds(settings), thresholds(kind.settings())
    return Listed(
        name=kind.name,
        key=kind.where,
        enabled=settings.enabled,
        watches=kind.watches,
        verdicts=kind.verdicts,
        reasons=kind.reasons,
        thresholds={name: Threshold(value=value, default=defaults[name]) for name, value in values.items()},
    )


def unguarded() -> Guards:
    """For a model that is being tried out: what it does unhindered is what is to be seen."""
    return GuardSet(())


def chosen_by(settings: tree.Settings) -> Chosen:
    """Everything that is switched on: ours first, then the packages' in the order of the configuration."""
    guards = settings.guards
    plugins = [(name, plugin) for name, plugin in guards.plugins.items() if plugin.enabled]
    if not settings.loop.turn_strategy.allow_multiple_per_turn:
        guards = msgspec.structs.replace(guards, tool_budget=_one_at_a_time(guards.tool_budget))
    return [*chosen(guards, settings.completion), *(_loaded(name, plugin) for name, plugin in plugins)]


def _one_at_a_time(budget: ToolBudgetGuard) -> ToolBudgetGuard:
    """`loop.turn_strategy.allow_multiple_per_turn: false`, also where the budget itself is switched off."""
    if budget.enabled:
        return msgspec.structs.replace(budget, per_reply=1)
    return ToolBudgetGuard(calls=sys.maxsize, per_reply=1)


def installed() -> dict[str, EntryPoint]:
    """Guards of other packages, by name. Only who configures or lists them pays for the look: it costs 30 ms."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def kind_of(point: EntryPoint) -> Kind:
    try:
        found = point.load()
    except Exception as broken:  # the rim of foreign code: a package may break in any way as it is imported
        raise ConfigError(
            f"The guard {point.name} of {_source(point)} cannot be loaded: {type(broken).__name__}: {broken}.",
            remedy="Mend or remove the package.",
        ) from broken
    if not isinstance(found, Kind):
        raise ConfigError(
            f"The entry point {point.name} = {point.value} of {GROUP} is no guard.", remedy="Name a Kind."
        )
    return found


def _loaded(name: str, plugin: PluginGuard) -> tuple[Kind, GuardSettings]:
    points = installed()
    if name not in points:
        import difflib

        known = [kind.name for kind in GUARDS] + sorted(points)
        near = difflib.get_close_matches(name, known, n=1)
        raise ConfigError(
            f"guards.{name}: there is no guard of this name.",
            remedy=f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}.",
        )
    kind = kind_of(points[name])
    return kind, _own_settings(name, kind, plugin)


def _own_settings(name: str, kind: Kind, plugin: PluginGuard) -> GuardSettings:
    try:
        return msgspec.convert({**plugin.options, "enabled": True}, kind.settings)
    except msgspec.ValidationError as bad:
        raise ConfigError(
            f"guards.{name}.options: {bad}.", remedy="turnwright guards list shows what it takes."
        ) from bad
