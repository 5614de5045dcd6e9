"""What cannot work is said in one sentence with its remedy, classified as what it is, and not tried again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from weather_runs import Nursery, Place, nursery, run_words
from weather_server import refusal, row

from turnwright.providers.codec import Dialect
from turnwright.testing.exchange import whole
from turnwright.testing.faults import serve

ADDRESS = "http://127.0.0.1:9/v1"


@pytest.fixture
async def forks() -> AsyncIterator[Nursery]:
    async with nursery() as forks:
        yield forks


BEFORE_ANY_REQUEST: list[tuple[str, dict[str, Any], list[str], int, list[str]]] = [
    ("no-provider", {}, ["--model", "nope/x"], 52, ["No provider 'nope' is known.", "providers.nope.base_url"]),
    ("no-key", {}, ["--model", "groq/x"], 41, ["no key for provider groq", "Set GROQ_API_KEY."]),
    (
        "unset-variable",
        {},
        ["--model", "m", "--base-url", ADDRESS, "--api-key-env", "NOT_SET"],
        41,
        ["the variable NOT_SET is not set", "--api-key-env"],
    ),
    (
        "unknown-dialect",
        {},
        ["--model", "m", "--base-url", ADDRESS, "--dialect", "klingon"],
        52,
        ["no dialect 'klingon'", "Known are: openai-chat,"],
    ),
    (
        "unknown-dialect-in-file",
        {"providers": {"own": {"base_url": ADDRESS, "dialect": "klingon"}}},
        ["--model", "own/m"],
        52,
        ["providers.own.dialect", "no dialect 'klingon'", "Known are: openai-chat,", "bad.yaml:1"],
    ),
    (
        "unknown-profile",
        {"providers": {"own": {"base_url": ADDRESS, "profile": "opnai"}}},
        ["--model", "own/m"],
        52,
        ["providers.own.profile", "no profile 'opnai'", "Did you mean openai?", "bad.yaml:1"],
    ),
    (
        "unknown-key",
        {"providers": {"own": {"base_url": ADDRESS, "dialct": "openai-chat"}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own.dialct", "Did you mean providers.own.dialect?"],
    ),
    (
        "provider-is-no-section",
        {"providers": {"own": ["base_url"]}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own is a section", "It has:"],
    ),
    (
        "wrong-type",
        {"providers": {"own": {"base_url": ADDRESS, "stream": "perhaps"}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own.stream", "auto, always, never"],
    ),
    (
        "unknown-quirk",
        {"providers": {"own": {"base_url": ADDRESS, "quirks": {"max_token_key": "x"}}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own.quirks.max_token_key", "Did you mean providers.own.quirks.max_tokens_key?"],
    ),
    (
        "quirk-of-a-wrong-type",
        {"providers": {"own": {"base_url": ADDRESS, "quirks": {"call_ids": "short"}}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own.quirks.call_ids", "any"],
    ),
    (
        "unknown-auth",
        {"providers": {"own": {"base_url": ADDRESS, "auth": "basic"}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.own.auth", "bearer"],
    ),
    (
        "impossible-header",
        {"providers": {"own": {"base_url": ADDRESS, "headers": {"two words": "x"}}}},
        ["--model", "own/m"],
        52,
        ["providers.own", "'two words'", "letters, digits", "bad.yaml:1"],
    ),
    ("not-an-address", {}, ["--model", "m", "--base-url", "ftp://host"], 52, ["--base-url", "http:// or https://"]),
    ("no-host", {}, ["--model", "m", "--base-url", "http://"], 52, ["names no host", "https://host/v1"]),
    ("no-such-port", {}, ["--model", "m", "--base-url", "http://h:99999"], 52, ["99999", "https://host/v1"]),
    ("query", {}, ["--model", "m", "--base-url", f"{ADDRESS}?v=1"], 52, ["holds a query"]),
    ("password", {}, ["--model", "m", "--base-url", "http://u:hunter2@h/v1"], 52, ["a user name"]),
    (
        "missing-fallback",
        {"providers": {"own": {"base_url": ADDRESS}, "routing": {"fallback": ["gone/m"]}}},
        ["--model", "own/m"],
        52,
        ["No provider 'gone' is known.", "providers.gone.base_url"],
    ),
    (
        "impossible-circuit",
        {"providers": {"routing": {"circuit": {"failures": 0}}}},
        ["--model", "own/m"],
        52,
        ["bad.yaml:1", "providers.routing.circuit.failures"],
    ),
    ("impossible-timer", {"timers": {"gap_s": -1}}, ["--model", "own/m"], 52, ["bad.yaml:1", "timers.gap_s"]),
]


@pytest.mark.parametrize(
    ("settings", "words", "code", "says"),
    [case[1:] for case in BEFORE_ANY_REQUEST],
    ids=[case[0] for case in BEFORE_ANY_REQUEST],
)
async def test_before_any_request(
    settings: dict[str, Any], words: list[str], code: int, says: list[str], tmp_path: Path, forks: Nursery
) -> None:
    place = Place(tmp_path / "place")
    config = place.config(settings, "bad.yaml")
    ran = await forks.run(place, "run", "go", *words, "--config", str(config), "--cwd", str(place.work), "--no-input")
    assert ran.code == code, ran.err
    assert len(ran.err.splitlines()) == 1, ran.err
    assert [each for each in says if each not in ran.err] == [], ran.err
    assert "hunter2" not in ran.err


KEY = "sk-live-0123456789abcdefXYZ"
NO_TOOLS = "'m' does not support tools"

REFUSED: list[tuple[str, Dialect, int, str, str, int, str, list[str]]] = [
    (
        "wrong-key",
        "openai-chat",
        401,
        "Incorrect API key provided.",
        "auth",
        41,
        "invalid_api_key",
        ["key was refused"],
    ),
    (
        "no-permission",
        "openai-chat",
        403,
        "Your project may not use m.",
        "permission",
        59,
        "",
        ["may not use m", "ask for access"],
    ),
    (
        "empty-account",
        "openai-chat",
        402,
        "Insufficient balance.",
        "billing",
        59,
        "",
        ["Insufficient balance.", "top it up"],
    ),
    (
        "unknown-model",
        "openai-chat",
        404,
        "The model `m` does not exist.",
        "not_found",
        59,
        "model_not_found",
        ["`m`", "check the model's name"],
    ),
    ("no-tools", "openai-chat", 400, NO_TOOLS, "bad_request", 59, "", [NO_TOOLS, "tools.dialects"]),
    ("no-tools-ollama", "ollama", 400, NO_TOOLS, "bad_request", 59, "", [NO_TOOLS, "tools.dialects"]),
    ("no-jinja", "openai-chat", 500, "tools param requires --jinja flag", "bad_request", 59, "", ["tools.dialects"]),
    (
        "unprocessable",
        "openai-chat",
        422,
        "Extra inputs are not permitted.",
        "bad_request",
        59,
        "",
        ["Extra inputs", "check the model's name, the dialect and the tools"],
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=[case[0] for case in REFUSED])
async def test_what_the_host_refuses(
    case: tuple[str, Dialect, int, str, str, int, str, list[str]], tmp_path: Path, forks: Nursery
) -> None:
    name, dialect, status, message, kind, code, error_code, says = case
    answer = refusal(status, message, error_code)
    if dialect == "ollama":
        answer = whole(status, "application/json", b'{"error":"%b"}' % message.encode())
    place = Place(tmp_path / "place")
    config = place.config({"logging": {"level": "error"}})
    async with serve([row(name, answer, dialect=dialect)]) as server:
        words = run_words(server.url(name), dialect, config, place.work, "--api-key-env", "OWN_KEY")
        ran = await forks.run(place, *words, env={"OWN_KEY": KEY})
        assert len(server.seen(name)) == 1, "it was tried again"
    assert ran.code == code, ran.err
    (ended,) = ran.facts("attempt.ended")
    assert (ended["verdict"], ended["fault"]["status"], ended["fault"]["kind"]) == ("http_error", status, kind)
    (turn,) = ran.facts("turn.ended")
    assert turn["reason"] == "provider-error"
    (result,) = ran.facts("result")
    assert result["detail"] == turn["detail"]
    told = f"{result['detail']} {result['remedy']}"
    assert [each for each in says if each not in told] == [], told
    assert KEY not in ran.out + ran.err


async def test_what_a_profile_in_yaml_says_is_sent(tmp_path: Path, forks: Nursery) -> None:
    place = Place(tmp_path / "place")
    async with serve([row("own", whole(200, "application/json", b"{}"))]) as server:
        own = {
            "base_url": server.url("own"),
            "auth": "api-key",
            "api_key_env": "OWN_KEY",
            "stream": "never",
            "query": {"api-version": "1"},
            "quirks": {"max_tokens_key": "max_new", "extra_body": {"a": {"b": [1]}, "temperature": 0}},
        }
        config = place.config({"model": "own/m", "providers": {"own": own}, "loop": {"retry": {"attempts": 1}}})
        words = ["run", "go", "--config", str(config), "--cwd", str(place.work), "--no-input"]
        await forks.run(place, *words, env={"OWN_KEY": KEY})
        (seen,) = server.seen("own")
    body = json.loads(seen.body)
    assert {key: body[key] for key in ("a", "temperature", "stream")} == {
        "a": {"b": [1]},
        "temperature": 0,
        "stream": False,
    }
    assert (seen.headers["api-key"], "authorization" in seen.headers) == (KEY, False)
    assert seen.path.endswith("/chat/completions?api-version=1")


async def test_what_is_no_utf_8_is_replaced_and_counted(tmp_path: Path, forks: Nursery) -> None:
    body = b'{"id":"x","model":"m","choices":[{"message":{"content":"a\xffb\xfec"},"finish_reason":"stop"}]}'
    place = Place(tmp_path / "place")
    async with serve([row("own", whole(200, "application/json", body))]) as server:
        words = run_words(server.url("own"), "openai-chat", place.config({}), place.work)
        ran = await forks.run(place, *words)
    assert ran.code == 0, ran.err
    (ended,) = ran.facts("attempt.ended")
    assert (ended["verdict"], ended["replaced"]) == ("complete", 2)
    assert ran.facts("result")[0]["text"] == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://127.0.0.1:9/v1", "Connection refused"),
        ("http://no-such-host.invalid/v1", "no-such-host.invalid"),
    ],
)
async def test_where_nobody_answers(address: str, says: str, tmp_path: Path, forks: Nursery) -> None:
    """An outage: tried again, and then said with the name of the host."""
    place = Place(tmp_path / "place")
    config = place.config({"loop": {"retry": {"attempts": 1}}, "logging": {"level": "error"}})
    ran = await forks.run(place, *run_words(address, "openai-chat", config, place.work))
    assert ran.code == 59, ran.err
    (ended,) = ran.facts("attempt.ended")
    assert ended["verdict"] == "transport"
    assert says in ran.facts("turn.ended")[0]["detail"]
