"""What is known of the models that the settings name: the user's word first, then the catalogue's (P2, P16)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec

from turnwright.providers.catalogue import Known, Shelf, found, nearest, overridden
from turnwright.providers.catalogue_digest import Catalogue
from turnwright.providers.codec import Quirks
from turnwright.providers.profiles import PROFILES, Capabilities, Profile, capabilities_of, coverage_of
from turnwright.schema.errors import ConfigError
from turnwright.schema.settings import ModelEntry, Provider, Settings

ABILITIES = ("tools", "images", "reasoning")
OWN_PREFIXES = ("ft:",)
"""Names that hosts give to what a user has trained there."""


class Library:
    """`missing` says why there is no catalogue, where one was wanted."""

    def __init__(self, settings: Settings, catalogue: Catalogue | None = None, *, missing: str = "") -> None:
        self.catalogue = catalogue
        self.missing = missing
        self._settings = settings

    def known(self, provider: str, model: str) -> Known:
        """What is not known is None in it."""
        shelf = self.shelf(provider)
        known = (found(shelf, model) if shelf else None) or Known(id=model)
        if entry := self.entry(provider, model):
            known = overridden(known, entry)
        host = PROFILES.get(shelf_name(self._settings, provider))
        able = capabilities_of(
            host.capabilities if host else Capabilities(tools=None), _configured(self._settings, provider)
        )
        cannot = [name for name in ABILITIES if getattr(able, name) is False]
        return msgspec.structs.replace(known, **{name: False for name in cannot if getattr(known, name) is None})

    def shelf(self, provider: str) -> Shelf | None:
        return self.catalogue.shelf(shelf_name(self._settings, provider)) if self.catalogue else None

    def entry(self, provider: str, model: str) -> ModelEntry | None:
        models = self._settings.catalogue.models
        return models.get(f"{provider}/{model}") or models.get(model)

    def check(self, provider: str, model: str) -> None:
        """Raises ConfigError for a name that the provider does not have, as far as anybody can know."""
        shelf = self.shelf(provider)
        if self._may_be_unknown(provider, shelf) or model.startswith(OWN_PREFIXES):
            return
        if self.entry(provider, model) is not None or (shelf and found(shelf, model)):
            return
        near = nearest(shelf, model) if shelf else ()
        meant = f"Did you mean {' or '.join(near)}? " if near else f"See turnwright models --provider {provider}. "
        raise ConfigError(
            f"No model {model!r} of {provider} is known{self._as_of()}.",
            remedy=f"{meant}To use it all the same, set providers.{provider}.allow_unknown_models: true, "
            f"or describe it under catalogue.models.{provider}/{model}.",
        )

    def _may_be_unknown(self, provider: str, shelf: Shelf | None) -> bool:
        allowed = _configured(self._settings, provider).allow_unknown_models
        if allowed is None:
            return shelf is None or coverage_of(provider, _configured(self._settings, provider)) != "whole"
        return allowed

    def _as_of(self) -> str:
        sources = ", ".join(map(str, self.catalogue.sources)) if self.catalogue else ""
        return f" ({sources})" if sources else ""


async def library_for(settings: Settings, providers: Iterable[str], *, cache: Path, wall_ms: int) -> Library:
    """A catalogue is opened where one of the providers is in it; the first time it is made, which takes seconds."""
    from turnwright.app.catalogue import NoCatalogue, kept_catalogue, made_catalogue

    wanted = {name for each in providers if (name := _covered(settings, each))}
    if not wanted:
        return Library(settings)
    if kept := kept_catalogue(cache, wanted):
        return Library(settings, kept)
    try:
        return Library(settings, await asyncio.to_thread(made_catalogue, cache, day_of(wall_ms)))
    except NoCatalogue as why:
        return Library(settings, missing=str(why))


def shelf_name(settings: Settings, provider: str) -> str:
    return _configured(settings, provider).profile or provider


def day_of(wall_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(wall_ms / 1000, UTC).date().isoformat()


def _covered(settings: Settings, provider: str) -> str:
    """The shelf of a provider; empty where it cannot have one."""
    name = shelf_name(settings, provider)
    return name if name in PROFILES and PROFILES[name].catalogue != "none" else ""


def _configured(settings: Settings, provider: str) -> Provider:
    return settings.providers.named.get(provider, Provider())


def quirks_for(profile: Profile, known: Known, entry: ModelEntry | None) -> Quirks:
    """A model that wants its reasoning back gets it under the name that it wants. A host that has a way of its own
    keeps it, unless the user says otherwise."""
    quirks = profile.quirks
    told = entry is not None and entry.reasoning_field is not None
    if known.reasoning_field is None or not (told or quirks.reasoning_replay == "never"):
        return quirks
    replay = "with_calls" if quirks.reasoning_replay == "never" else quirks.reasoning_replay
    return msgspec.structs.replace(quirks, reasoning_field=known.reasoning_field, reasoning_replay=replay)
