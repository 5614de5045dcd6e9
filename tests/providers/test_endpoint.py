from __future__ import annotations

import pytest

from turnwright.providers.codec import Dialect
from turnwright.providers.dialects import codec_of
from turnwright.providers.endpoint import AuthStyle, Endpoint, check_endpoint, request_to, url_of
from turnwright.schema.errors import ConfigError, CredentialsError
from turnwright.wire.http import Request


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("http://h", "/chat/completions", "http://h/chat/completions"),
        ("http://h/", "/chat/completions", "http://h/chat/completions"),
        ("http://h/v1/", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h", "/models/my modèl#1:go", "http://h/models/my%20mod%C3%A8l%231:go"),
        ("http://h/v1beta", "/models/m:go?alt=sse", "http://h/v1beta/models/m:go?alt=sse"),
    ],
)
def test_urls(base_url: str, path: str, url: str) -> None:
    assert url_of(Endpoint(base_url=base_url), path) == url


def test_queries_are_joined() -> None:
    endpoint = Endpoint(base_url="http://h", auth="query", key="k&1", query=(("api-version", "2024 x"),))
    assert url_of(endpoint, "/m:go?alt=sse") == "http://h/m:go?alt=sse&api-version=2024%20x&key=k%261"


@pytest.mark.parametrize(
    ("auth", "key", "header"),
    [
        ("bearer", "k", ("Authorization", "Bearer k")),
        ("x-api-key", "k", ("x-api-key", "k")),
        ("api-key", "k", ("api-key", "k")),
        ("x-goog-api-key", "k", ("x-goog-api-key", "k")),
        ("bearer", "", None),
        ("none", "k", None),
        ("query", "k", None),
    ],
)
def test_how_a_key_is_shown(auth: AuthStyle, key: str, header: tuple[str, str] | None) -> None:
    endpoint = Endpoint(base_url="http://h", auth=auth, key=key)
    request = request_to(endpoint, codec_of("openai-chat"), model="m", body=b"{}", stream=True, agent="a/1")
    own = (
        ("User-Agent", "a/1"),
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("Accept-Encoding", "identity"),
    )
    headers = (*own, header) if header else own
    url = "http://h/chat/completions" + ("?key=k" if auth == "query" else "")
    assert request == Request(method="POST", url=url, headers=headers, body=b"{}")


def test_headers_of_the_user_win() -> None:
    mine = (("accept", "x/y"), ("X-API-KEY", "mine"), ("X-More", "1"))
    endpoint = Endpoint(base_url="http://h", auth="x-api-key", key="k", headers=mine)
    request = request_to(endpoint, codec_of("anthropic"), model="m", body=b"", stream=False, agent="a")
    assert request.headers == (
        ("User-Agent", "a"),
        ("Content-Type", "application/json"),
        ("Accept-Encoding", "gzip, deflate"),
        ("anthropic-version", "2023-06-01"),
        *mine,
    )


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_what_is_accepted(dialect: Dialect) -> None:
    endpoint = Endpoint(base_url="http://h")
    for stream, accepted in ((True, "text/event-stream"), (False, "application/json; charset=utf-8")):
        request = request_to(endpoint, codec_of(dialect), model="m", body=b"", stream=stream, agent="a")
        assert dict(request.headers)["Accept"] == accepted


@pytest.mark.parametrize(
    ("endpoint", "error", "words"),
    [
        (Endpoint(base_url="nope"), ConfigError, "providers.x"),
        (Endpoint(base_url="ftp://h"), ConfigError, "http://"),
        (Endpoint(base_url="http://h?x=1"), ConfigError, "query"),
        (Endpoint(base_url="http://me:secret@h"), ConfigError, "user name"),
        (Endpoint(base_url="http://h", headers=(("a b", "x"),)), ConfigError, "'a b'"),
        (Endpoint(base_url="http://h", headers=(("a", "x\ny"),)), ConfigError, "line break"),
        (Endpoint(base_url="http://h", key="abc\n"), CredentialsError, "line break"),
        (Endpoint(base_url="http://h", key="ключ"), CredentialsError, "ASCII"),
    ],
)
def test_what_is_impossible(endpoint: Endpoint, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        check_endpoint(endpoint, "providers.x")
    assert "secret" not in str(caught.value) and "abc" not in str(caught.value)


def test_a_repr_hides_the_key() -> None:
    assert "0123456789abcdef" not in repr(Endpoint(base_url="http://h", key="0123456789abcdef"))
