from __future__ import annotations

import pytest

from turnwright.schema.errors import InputError
from turnwright.wire.proxies import Proxies, proxies_from, proxy_for
from turnwright.wire.url import Origin, Url, parse_url


@pytest.mark.parametrize(
    ("text", "url", "authority"),
    [
        ("http://a", Url(Origin("http", "a", 80), "/"), "a"),
        ("https://A.example/v1/x?y=1", Url(Origin("https", "a.example", 443), "/v1/x?y=1"), "a.example"),
        ("http://a:8080/", Url(Origin("http", "a", 8080), "/"), "a:8080"),
        ("http://[::1]:80/x", Url(Origin("http", "::1", 80), "/x"), "[::1]"),
        ("https://[::1]:1/x", Url(Origin("https", "::1", 1), "/x"), "[::1]:1"),
    ],
)
def test_addresses(text: str, url: Url, authority: str) -> None:
    assert parse_url(text) == url
    assert url.origin.authority == authority


@pytest.mark.parametrize(
    "text",
    (
        *("", "a", "ftp://a", "http://", "http:///x", "http://a:99999", "http://a:x/", "http://a b/", "http://[::1"),
        *("http://a/\r\nX: y", "http://u:p@a/", "http://a/#x", "http://a/é", "file:///etc/passwd"),
    ),
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_url(text)
    assert "http" in str(caught.value) and ":p@" not in str(caught.value)


SECURE, PLAIN = Origin("https", "api.example.org", 443), Origin("http", "api.example.org", 80)


@pytest.mark.parametrize(
    ("variables", "origin", "proxy"),
    [
        ({}, SECURE, None),
        ({"https_proxy": "http://p:3128"}, SECURE, Origin("http", "p", 3128)),
        ({"HTTPS_PROXY": "p:3128"}, SECURE, Origin("http", "p", 3128)),
        ({"https_proxy": "http://p:3128"}, PLAIN, None),
        ({"http_proxy": "http://p"}, PLAIN, Origin("http", "p", 80)),
        ({"HTTP_PROXY": "http://p"}, PLAIN, None),
        ({"ALL_PROXY": "http://p:1"}, SECURE, Origin("http", "p", 1)),
        ({"https_proxy": "p:1", "no_proxy": "other, .example.org"}, SECURE, None),
        ({"https_proxy": "p:1", "no_proxy": "api.example.org:443"}, SECURE, None),
        ({"https_proxy": "p:1", "no_proxy": "api.example.org:80"}, SECURE, Origin("http", "p", 1)),
        ({"https_proxy": "p:1", "NO_PROXY": "*"}, SECURE, None),
        ({"https_proxy": "p:1", "no_proxy": "ample.org"}, SECURE, Origin("http", "p", 1)),
        ({"https_proxy": "p:1", "no_proxy": "*.example.org"}, SECURE, None),
    ],
)
def test_which_proxy(variables: dict[str, str], origin: Origin, proxy: Origin | None) -> None:
    found = proxy_for(origin, proxies_from(variables))
    assert (found and found[0]) == proxy


def test_a_proxy_may_have_a_user_and_never_shows_the_password() -> None:
    assert proxy_for(PLAIN, Proxies(http="http://me:p%40ss@p:1")) == (Origin("http", "p", 1), "me:p@ss")
    with pytest.raises(InputError) as caught:
        proxy_for(PLAIN, Proxies(http="socks5://me:secret@p:1"))
    assert "secret" not in str(caught.value) and "http://host:port" in str(caught.value)
