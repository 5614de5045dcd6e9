"""Secrets, made unreadable before anything is written or shown (X5). Pure: text in, text out.

Patterns here run over text that a stranger may have written, on an engine that backtracks. Each is therefore a
literal prefix and possessive runs of one character class, which the engine reads once; nothing nests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from turnwright.schema.long_words import EITHER, ENCODED, KEYS, words_in
from turnwright.schema.wrapped_secrets import WRAPPED_BYTES_MIN, broken_words, wraps

SEARCHED_CHARS_MIN = 8
"""A configured value shorter than this is masked where it stands as a value, but not looked for inside text: hiding
every `x` or `test` would destroy the record and protect nothing."""

HARMLESS_WORDS_MAX = 4_096
HARMLESS_BYTES_MAX = 128

_HIDDEN = "***"
_TOKEN = r"(?:(?=[a-z_-]*+[A-Z0-9])[A-Za-z0-9_-]{16,}+|[A-Za-z0-9_-]{24,}+)"
"""What follows a key's prefix: 16 characters with a digit or a capital, or 24 of any kind, so that `sk-learn-contrib`
stays readable."""


def masked(secret: str) -> str:
    """What may be shown of one secret value."""
    kept = 3 if len(secret) >= 13 else 2 if len(secret) >= 11 else 1 if len(secret) >= 8 else 0
    return f"{secret[:kept]}{_HIDDEN}{secret[-kept:]}" if kept else _HIDDEN


def _prefixed(*prefixes: str) -> list[tuple[str, str]]:
    return [(prefix, rf"(?<![A-Za-z0-9]){prefix}{_TOKEN}") for prefix in prefixes]


_SHAPES: tuple[tuple[str, str], ...] = (
    *_prefixed("sk-", "sk_", "rk_", "gsk_", "xai-", "hf_", "r8_", "pplx-", "fw_", "tgp_", "csk-", "nvapi-", "npm_"),
    *_prefixed("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "pypi-", "dop_v1_", "shpat_"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}+"),
    ("ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{16,}+"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("xox", r"(?<![A-Za-z0-9])xox[abeprs]-[A-Za-z0-9-]{11,}+"),
    ("SG.", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    ("eyJ", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{13,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"),
)
"""Known shapes of keys, of 16 characters or more, each behind a literal that says cheaply whether the text can hold
one at all. Patterns are left to `re`'s own cache: compiling them all would cost every start ten milliseconds."""

KEY_PREFIXES = tuple(hint for hint, _ in _SHAPES)

CREDENTIAL_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-auth-token",
        "cookie",
        "set-cookie",
    }
)

_BETWEEN = r"(?P<between>\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?)"
_HEADER = (
    r"(?i)(?<![a-z0-9])(?P<name>(?:proxy-)?authorization|x-api-key|api-key|x-goog-api-key|x-auth-token)"
    rf"{_BETWEEN}(?:(?P<scheme>(?:bearer|basic|token)[ \t]{{1,8}})(?P<told>[a-z0-9._~+/=-]{{8,}}+)"
    r"|(?P<bare>(?=[a-z._~+/=%-]*+[0-9])[a-z0-9._~+/=%-]{8,}+|[a-z0-9._~+/=%-]{20,}+))"
)
"""A credential header in running text or in JSON, itself inside a JSON string or not."""
_COOKIE = (
    rf"(?i)(?<![a-z0-9])(?P<name>(?:set-)?cookie){_BETWEEN}"
    r"(?P<scheme>)(?P<told>)(?P<bare>[a-z0-9_.-]{1,64}+=[^\"'\\\r\n]{8,}+)"
)

_URL_PASSWORD = r"(?P<before>://[^\s/:@\"'\\]{1,128}+:)(?P<secret>[^\s/@\"'\\]{1,256}+)(?=@)"
_KEY_BEGINS = r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----"
_KEY_ENDS = "-----END "


def names_a_secret(name: str) -> bool:
    """Whether what stands under this name, in a header or a query, may open a door."""
    lowered = name.lower()
    return lowered in CREDENTIAL_HEADERS or any(word in lowered for word in ("key", "token", "secret", "auth", "passw"))


def masked_header(name: str, value: str) -> str:
    """A header's value as it may be shown: the scheme stays, the credential does not."""
    if name.lower() not in CREDENTIAL_HEADERS:
        return mask(value)
    scheme, space, credential = value.partition(" ")
    if space and scheme.lower() in {"bearer", "basic", "token"}:
        return f"{scheme} {masked(credential.strip())}"
    return masked(value)


def masked_told(name: str, value: str) -> str:
    """A configured header or parameter, as it may be shown."""
    return (
        masked_header(name, value) if name.lower() in CREDENTIAL_HEADERS or not names_a_secret(name) else masked(value)
    )


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: masked_header(name, value) for name, value in headers.items()}


class Masker:
    """Masks known shapes, credential headers and the configured `secrets` in any text, in the encodings in which a
    tool's output or a request may carry them. Made once, used for every write."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SEARCHED_CHARS_MIN}
        replacements: dict[str, str] = {}
        for secret in known:
            replacements.update(_spellings(secret))
        # Longest first: a secret that holds another must not be left half readable.
        self._replacements = sorted(replacements.items(), key=lambda pair: -len(pair[0]))
        self._raw = tuple({each.encode("utf-8", "surrogatepass") for each in known})
        self._harmless: set[bytes] = set()
        """Words that were looked at, each by itself: ids and paths come again in every fact of a turn. None may be the
        first line of a longer one."""

    def also(self, secrets: Iterable[str]) -> Masker:
        """One that masks these too."""
        other = Masker(secrets)
        if not other._replacements:
            return self
        other.learn_from(self)
        return other

    def learn_from(self, other: Masker) -> None:
        """Everything that it masks, from now on."""
        both = {**dict(self._replacements), **dict(other._replacements)}
        self._replacements = sorted(both.items(), key=lambda pair: -len(pair[0]))
        self._raw = tuple({*self._raw, *other._raw})
        self._harmless = set()

    def of_bytes(self) -> Masker:
        """For bytes that were read one to a character: what a command prints need be no text."""
        other = Masker()
        other._raw = self._raw
        other._replacements = [tuple(map(_as_bytes, pair)) for pair in self._replacements]  # type: ignore[misc]
        return other

    @property
    def spellings(self) -> tuple[str, ...]:
        """Everything that is looked for, longest first."""
        return tuple(spelling for spelling, _ in self._replacements)

    def __call__(self, text: str) -> str:
        for spelling, shown in self._replacements:
            while spelling in text:  # again, because what is left beside a mask may spell it once more
                text = text.replace(spelling, shown)
        if fresh := words_in(text.encode("utf-8", "surrogatepass"), EITHER) - self._harmless:
            text = self._looked_at(text, fresh)
        if "@" in text and "://" in text:
            text = re.sub(_URL_PASSWORD, lambda found: found["before"] + masked(found["secret"]), text)
        if "PRIVATE KEY-----" in text:
            text = _without_private_keys(text)
        lowered = text.lower()
        # Spelled out: a generator would cost more than the search, and every write passes here.
        if "authorization" in lowered or "api-key" in lowered or "auth-token" in lowered or "cookie" in lowered:
            text = re.sub(_HEADER, _header_found, text)
            text = re.sub(_COOKIE, _header_found, text)
        return text

    def _looked_at(self, text: str, fresh: set[bytes]) -> str:
        """Without what is a key among words that were never seen, or wraps one."""
        spoken = b" ".join(fresh)
        shown = self._without_keys(text, spoken)
        if encoded := words_in(spoken, ENCODED):
            shown = self._without_wrapped(shown, encoded)
        if shown == text:
            if len(self._harmless) > HARMLESS_WORDS_MAX:
                self._harmless.clear()
            going_on = [word for word in encoded if len(word) >= WRAPPED_BYTES_MIN]
            self._harmless.update(
                word for word in fresh if len(word) <= HARMLESS_BYTES_MAX and not any(one in word for one in going_on)
            )
        return shown

    def _without_keys(self, text: str, words: bytes) -> str:
        candidates = words.decode("ascii")
        shapes = [shape for hint, shape in _SHAPES if hint in candidates and re.search(shape, candidates)]
        for shape in shapes:
            text = re.sub(shape, lambda found: masked(found[0]), text)
        return text

    def _without_wrapped(self, text: str, words: set[bytes]) -> str:
        """Without the words in which a key was encoded, or compressed: all of such a word goes."""
        for word in words:
            if wraps(word, self._opens):
                text = text.replace(word.decode("ascii"), masked(word.decode("ascii")))
        if any(len(word) >= WRAPPED_BYTES_MIN for word in words):
            for written, word in list(broken_words(text)):
                if wraps(word, self._opens):
                    text = text.replace(written, masked(word.decode("ascii")))
        return text

    def _opens(self, data: bytes) -> bool:
        for secret in self._raw:
            if secret in data:
                return True
        words = words_in(data, KEYS)
        if not words:
            return False
        candidates = b" ".join(words).decode("ascii", "replace")
        return any(hint in candidates and re.search(shape, candidates) for hint, shape in _SHAPES)

    def encoded(self, body: bytes) -> bytes:
        """The same for UTF-8 bytes. JSON stays JSON: where something has to go, it goes from the decoded strings,
        for a cut through an escape would leave a line that nobody can read."""
        text = body.decode("utf-8", "surrogateescape")
        shown = self(text)
        if shown == text:
            return body
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return shown.encode("utf-8", "surrogateescape")
        return msgspec.json.encode(self._within(value))

    def _within(self, value: object) -> object:
        match value:
            case str():
                return self(value)
            case list():
                return [self._within(item) for item in value]
            case dict():
                return {self(name): self._entry(name, item) for name, item in value.items()}
            case _:
                return value

    def _entry(self, name: str, item: object) -> object:
        if isinstance(item, str) and name.lower() in CREDENTIAL_HEADERS:
            return masked_header(name, item)
        return self._within(item)


_everywhere = Masker()


def learn(masker: Masker) -> None:
    """What this process is trusted with: no message of it shows that, from now on."""
    _everywhere.learn_from(masker)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """For what belongs to no conversation: errors, tracebacks, whatever is said on a screen."""
    return _everywhere.also(secrets)(text)


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _header_found(found: re.Match[str]) -> str:
    return f"{found['name']}{found['between']}{found['scheme'] or ''}{masked(found['told'] or found['bare'])}"


def _spellings(secret: str) -> dict[str, str]:
    """Every way to write a configured secret, each with what replaces it."""
    import json
    import urllib.parse

    raw = secret.encode("utf-8", "surrogatepass")
    in_json = json.dumps(secret)[1:-1]
    in_json_utf8 = json.dumps(secret, ensure_ascii=False)[1:-1]
    shown_in_json = json.dumps(masked(secret))[1:-1]
    found = {secret: masked(secret), in_json: shown_in_json, in_json_utf8: shown_in_json}
    for quoted in _shell_spellings(secret):
        found.setdefault(quoted, masked(secret))
        found.setdefault(json.dumps(quoted)[1:-1], shown_in_json)
    encodings: list[Callable[[bytes], str]] = [
        bytes.hex,
        lambda value: value.hex().upper(),
        lambda value: urllib.parse.quote(value, safe=""),
        lambda value: urllib.parse.quote(value, safe="/"),
        lambda value: urllib.parse.quote_plus(value, safe=""),
        lambda value: re.sub("%..", lambda one: one[0].lower(), urllib.parse.quote(value, safe="")),
    ]
    found.setdefault(json.dumps(in_json)[1:-1], json.dumps(shown_in_json)[1:-1])
    # Some writers of JSON escape more than they must: PHP the slash, Go and Gson what HTML reads.
    found.setdefault(in_json.replace("/", "\\/"), shown_in_json)
    found.setdefault("".join(_HTML_SAFE.get(letter, letter) for letter in in_json), shown_in_json)
    for encoding in encodings:
        found.setdefault(encoding(raw), masked(encoding(raw)))
    for value in (raw, secret.encode("utf-16-le", "surrogatepass"), secret.encode("utf-16-be", "surrogatepass")):
        for core in _base64_cores(value):
            found.setdefault(core, masked(core))
            found.setdefault(core.translate(_URL_SAFE), masked(core.translate(_URL_SAFE)))
    return {spelling: shown for spelling, shown in found.items() if len(spelling) >= SEARCHED_CHARS_MIN}


def _shell_spellings(secret: str) -> Iterator[str]:
    """As a shell would read it back: `shlex.quote`, what people type, `printf %q`."""
    yield secret.replace("'", "'\"'\"'")
    yield secret.replace("'", "'\\''")
    yield re.sub(r"([^A-Za-z0-9_@%+=:,./-])", r"\\\1", secret)
    yield re.sub(r'(["$`\\])', r"\\\1", secret)


_HTML_SAFE = {letter: f"\\u{ord(letter):04x}" for letter in "&<>='"}
_URL_SAFE = str.maketrans("+/", "-_")


def _base64_cores(value: bytes) -> list[str]:
    """The characters that stay the same whatever stands before and after the value: one string per alignment."""
    import base64

    cores = []
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + value).decode()
        first = (shift * 8 + 5) // 6
        last = (shift + len(value)) * 8 // 6
        cores.append(text[first:last])
    return cores


def _without_private_keys(text: str) -> str:
    pieces: list[str] = []
    at = 0
    begin = re.compile(_KEY_BEGINS)
    while begins := begin.search(text, at):
        ends = text.find(_KEY_ENDS, begins.end())
        pieces += [text[at : begins.end()], _HIDDEN]
        if ends < 0:
            return "".join(pieces)
        at = ends
    return "".join([*pieces, text[at:]])
