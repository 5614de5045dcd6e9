"""The models that are known, as rows: the catalogue's, and those that the user describes himself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.library import Library, library_for
from turnwright.config.load import Loaded
from turnwright.providers.catalogue import SETTINGS, Known
from turnwright.providers.profiles import PROFILES
from turnwright.schema.errors import UsageError
from turnwright.schema.routes import Price
from turnwright.schema.settings import ReasoningField, Settings


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model; null is unknown. Prices are in USD per million tokens, as they are now."""

    model: str
    window: int | None
    max_output: int | None
    price: Price | None
    tools: bool | None
    images: bool | None
    reasoning: bool | None
    reasoning_field: ReasoningField | None
    updated: str
    """The day its price, or else the entry, last changed."""
    sources: tuple[str, ...]
    """With their versions, and the newest day that each speaks of."""
    overridden: bool
    """Some of it is the user's own word."""
    deprecated: bool


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[ModelRow, ...]
    sources: tuple[str, ...]
    missing: str = ""
    """Why there is no catalogue."""


async def listed_models(loaded: Loaded, provider: str = "", words: Sequence[str] = ()) -> Listed:
    """Those whose name holds all the words, of one provider or of all that are known or configured."""
    settings, now_ms = loaded.settings, SystemClock().wall_ms()
    names = list(dict.fromkeys((*PROFILES, *settings.providers.named)))
    if provider and provider not in names:
        raise UsageError(f"There is no provider {provider!r}.", remedy=f"There are: {', '.join(names)}.")
    names = [provider] if provider else names
    library = await library_for(settings, names, cache=loaded.folders.cache, wall_ms=now_ms)
    sources = {each.name: str(each) for each in library.catalogue.sources} if library.catalogue else {}
    wanted = [word.lower() for word in words]
    rows = tuple(
        _row(name, known, sources, now_ms / 1000)
        for name, known in _known(library, settings, names)
        if all(word in name.lower() for word in wanted)
    )
    return Listed(rows=rows, sources=tuple(sources.values()), missing=library.missing)


def _known(library: Library, settings: Settings, providers: Sequence[str]) -> Iterator[tuple[str, Known]]:
    """By provider, then by name. A model that only the settings know stands with its provider, if it names one."""
    described = set(settings.catalogue.models)
    for provider in providers:
        shelf = library.shelf(provider)
        own = {name.removeprefix(f"{provider}/") for name in described if name.startswith(f"{provider}/")}
        for model in sorted({*(shelf.models if shelf else ()), *own}):
            described -= {f"{provider}/{model}", model}
            yield f"{provider}/{model}", library.known(provider, model)
    if len(providers) > 1:
        for name in sorted(described):
            yield name, library.known("", name)


def _row(name: str, known: Known, sources: Mapping[str, str], now_s: float) -> ModelRow:
    return ModelRow(
        model=name,
        window=known.window,
        max_output=known.max_output,
        price=known.price(now_s),
        tools=known.tools,
        images=known.images,
        reasoning=known.reasoning,
        reasoning_field=known.reasoning_field,
        updated=known.updated,
        sources=tuple(sources.get(source, source) for source in known.sources),
        overridden=SETTINGS in known.sources,
        deprecated=known.deprecated,
    )
