"""What comes with status 200 and is, or is not, an answer (P4, P5)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from turnwright.testing.dialects.said import Said
from turnwright.testing.exchange import Exchange, streamed, whole
from turnwright.testing.fault_table.case import Behaviour, Fault, Setting, failed, good, recovered

PAGE = b"<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>\n"

Make: TypeAlias = Callable[[Setting], Behaviour | None]


def _body(setting: Setting, content_type: str | None, body: bytes, *headers: tuple[str, str]) -> Exchange:
    """Framed as the answer would have been."""
    if setting.streaming:
        return streamed(content_type, [body], *headers)
    return whole(200, content_type, body, *headers)


def _instead(body: bytes, verdict: Literal["interstitial", "non_json", "empty"], content_type: str = "") -> Make:
    """This body where an answer belongs; without a content type it claims to be the answer."""

    def make(setting: Setting) -> Behaviour:
        return Behaviour(_body(setting, content_type or setting.content_type, body), failed(verdict, status=200))

    return make


def _streams_only(make: Make) -> Make:
    """A host, or a proxy before it, that cannot stream: a whole document arrives (P11, P14)."""

    def only(setting: Setting) -> Behaviour | None:
        behaviour = make(setting)
        if not setting.streaming or setting.tools or behaviour is None:
            return None
        document = Setting(dialect=setting.dialect, streaming=False, tools=False)
        expected = msgspec.structs.replace(recovered(setting, behaviour.expected), requests=2)
        return Behaviour(behaviour.exchange, expected, document.reply())

    return only


def _typed(content_type: str | None) -> Make:
    """The right body under another type is accepted."""
    return lambda setting: Behaviour(_body(setting, content_type, setting.body()), good(setting))


def _other_form(setting: Setting) -> Behaviour:
    """A document where a stream was asked for, or a stream where a document was: both are read."""
    other = Setting(dialect=setting.dialect, streaming=not setting.streaming, tools=setting.tools)
    return Behaviour(other.reply(), good(setting))


def _array(setting: Setting) -> Behaviour | None:
    if setting.dialect != "gemini" or not setting.streaming:
        return None
    body = b"[" + b"\n,\n".join(one.data for one in setting.frames()) + b"]"
    return Behaviour(_body(setting, "application/json; charset=UTF-8", body), good(setting))


def _gzipped(setting: Setting) -> Behaviour:
    body = gzip.compress(setting.body(), mtime=0)
    return Behaviour(_body(setting, setting.content_type, body, ("Content-Encoding", "gzip")), good(setting))


def _gzip_unlabelled(setting: Setting) -> Behaviour:
    body = gzip.compress(setting.body(), mtime=0)
    return Behaviour(_body(setting, setting.content_type, body), failed("non_json", status=200))


def _no_words(setting: Setting) -> Behaviour:
    """Well-formed to its end, and nothing in it."""
    return Behaviour(setting.reply(Said()), failed("empty", status=200, finish="stop"))


def _done_only(setting: Setting) -> Behaviour | None:
    if setting.dialect != "openai-chat" or not setting.streaming:
        return None
    return Behaviour(streamed(setting.content_type, [b"data: [DONE]\n\n"]), failed("empty", status=200))


FAULTS = (
    Fault("html-200", "An HTML page with status 200", _instead(PAGE, "interstitial", "text/html; charset=utf-8")),
    Fault("html-200-mistyped", "The same page, declared as the answer", _instead(PAGE, "interstitial")),
    Fault(
        "html-200-indented",
        "The page after a BOM and blank lines",
        _instead(b"\xef\xbb\xbf\r\n \n" + PAGE, "interstitial"),
    ),
    Fault("whitespace-200", "Whitespace only", _instead(b" \n\n \r\n", "non_json")),
    Fault("zero-bytes", "Nothing at all", _instead(b"", "non_json")),
    Fault(
        "text-200",
        "A proxy's plain words",
        _instead(b"upstream connect error or disconnect/reset", "non_json", "text/plain"),
    ),
    Fault(
        "text-200-mistyped", "The same words, declared as the answer", _instead(b"upstream connect error", "non_json")
    ),
    Fault("binary-200", "Noise", _instead(bytes(range(128, 256)), "non_json", "application/octet-stream")),
    Fault("foreign-json", "JSON of something else", _instead(b'{"ok":true}', "empty", "application/json")),
    Fault("no-words", "A well-formed reply with nothing in it", _no_words),
    Fault("done-only", "Nothing but [DONE]", _done_only),
    Fault(
        "streams-are-pages",
        "A page for streams, an answer for documents",
        _streams_only(_instead(PAGE, "interstitial", "text/html")),
    ),
    Fault(
        "streams-are-empty", "Nothing for streams, an answer for documents", _streams_only(_instead(b"", "non_json"))
    ),
    Fault("typed-as-text", "The right body as text/plain", _typed("text/plain")),
    Fault("typed-as-octets", "The right body as application/octet-stream", _typed("application/octet-stream")),
    Fault("untyped", "The right body without a content type", _typed(None)),
    Fault("other-form", "A document where a stream was asked for, or the reverse", _other_form),
    Fault("array-for-stream", "Gemini's JSON array where SSE was asked for", _array),
    Fault("gzip", "gzip although identity was asked for", _gzipped),
    Fault("gzip-unlabelled", "gzip without saying so", _gzip_unlabelled),
)
