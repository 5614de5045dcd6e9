"""Secrets are unreadable wherever text is written."""

import base64
import json
import time
import urllib.parse

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.masking import Masker, mask, masked, masked_headers

SECRET = "Zq7-configured/secret+value"


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("", "***"),
        ("a", "***"),
        ("1234567", "***"),
        ("12345678", "1***8"),
        ("1234567890", "1***0"),
        ("12345678901", "12***01"),
        ("123456789012", "12***12"),
        ("1234567890123", "123***123"),
        ("1234567890123456789", "123***789"),
    ],
)
def test_the_rule_for_one_value(secret: str, shown: str) -> None:
    assert masked(secret) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key=sk-abcdef0123456789ABCDEF.", "key=sk-***DEF."),
        ("sk-ant-api03-AbCdEfGhIjKlMnOpQrSt and more", "sk-***rSt and more"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp***345"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnop", "git***nop"),
        ("AIzaSyA0123456789abcdefghijklmnopqrstuv", "AIz***tuv"),
        ("AKIAIOSFODNN7EXAMPLE is it", "AKI***PLE is it"),
        ("xoxb-123456789012-abcdefGHIJ", "xox***HIJ"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "eyJ***VmN"),
        ("Authorization: Bearer abcdefghijk", "Authorization: Bearer ab***jk"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic dXN***A=="),
        ('{"x-api-key": "0123456789abcdef"}', '{"x-api-key": "012***def"}'),
        (r'{"body":"{\"api-key\":\"0123456789abcdef\"}"}', r'{"body":"{\"api-key\":\"012***def\"}"}'),
        ("Set-Cookie: session=0123456789abc; Path=/", "Set-Cookie: ses***h=/"),
        ("postgres://me:hunter2hunter2@db/x", "postgres://me:hun***er2@db/x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\ndone",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\ndone",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "-----BEGIN PRIVATE KEY-----***"),
    ],
)
def test_known_shapes_and_headers(text: str, shown: str) -> None:
    assert mask(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a task-oriented-and-quite-long-name-with-dashes",
        "pip install sk-learn-contrib",
        "Authorization: required",
        "the api-key: see below",
        "https://host:8080/path",
        "turn_0123456789abcdefghij",
        "a cookie: please",
        "eyJust a word",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert mask(text, [SECRET]) == text


def _spelled(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "base64": base64.b64encode(raw).decode(),
        "base64 in the middle": base64.b64encode(b"x" + raw + b"yz").decode(),
        "base64 url-safe": base64.urlsafe_b64encode(b"xy" + raw).decode(),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "percent": urllib.parse.quote(secret, safe=""),
        "json": json.dumps(secret),
        "utf-16 base64": base64.b64encode(secret.encode("utf-16-le")).decode(),
    }


@pytest.mark.parametrize("spelling", _spelled(SECRET))
@pytest.mark.parametrize("secret", [SECRET, 'quote"and\\slash-éè', "12345678"])
def test_a_configured_value_is_found_in_every_spelling(spelling: str, secret: str) -> None:
    written = _spelled(secret)[spelling]
    shown = mask(f"before {written} after", [secret])
    middle = written[len(written) // 2 - 2 : len(written) // 2 + 2]
    assert middle not in shown
    assert shown.startswith("before ") and shown.endswith(" after")


def test_a_secret_within_a_longer_one_leaves_nothing_readable() -> None:
    assert mask("abcdefgh-ijklmnop", ["abcdefgh", "abcdefgh-ijklmnop"]) == "abc***nop"


def test_a_value_too_short_to_look_for_does_not_eat_the_text() -> None:
    assert mask("the test of type text", ["t", "test", "type"]) == "the test of type text"


def test_headers() -> None:
    shown = masked_headers(
        {"Authorization": "Bearer 0123456789abcdef", "X-Api-Key": "short", "Accept": "application/json"}
    )
    assert shown == {"Authorization": "Bearer 012***def", "X-Api-Key": "***", "Accept": "application/json"}


def test_bytes_that_hold_no_secret_are_the_same_object() -> None:
    body = b'{"type":"note","text":"nothing here"}'
    assert Masker([SECRET]).encoded(body) is body


@given(st.text(min_size=8, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_masked_json_is_still_json_without_the_secret(secret: str, before: str, after: str) -> None:
    body = msgspec.json.encode({"text": before + secret + after})
    shown = Masker([secret]).encoded(body)
    told = msgspec.json.decode(shown)["text"]
    assert secret not in told


def test_json_is_masked_in_its_strings() -> None:
    body = b'{"n":1,"headers":{"Authorization":"Bearer 0123456789abcdef"},"list":["\\u001babcdefgh-tail",null]}'
    assert Masker(["babcdefgh"]).encoded(body) == (
        b'{"n":1,"headers":{"Authorization":"Bearer 012***def"},"list":["\\u001babcdefgh-tail",null]}'
    )


@pytest.mark.parametrize(
    "piece",
    ["sk-", "eyJ", "authorization: ", "://a", "://a:b", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaaaaaa.", "xoxb-1"],
)
def test_no_text_makes_it_slow(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    began = time.monotonic()
    mask(text, [SECRET])
    assert time.monotonic() - began < 2
