"""How risky a change of files is: signals with points, and a tier (Q4). Pure: it sees the change and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.session.permissions.paths import is_protected
from turnwright.session.permissions.tool_segments import paths_of

RISKY = frozenset({"write", "edit", "patch"})

Tier: TypeAlias = Literal["low", "medium", "high", "critical"]
TIERS: tuple[tuple[int, Tier], ...] = ((75, "critical"), (50, "high"), (25, "medium"), (0, "low"))
TEXT_MAX = 200_000


class Signal(msgspec.Struct, frozen=True):
    points: int
    why: str


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    score: int
    """0 to 100."""
    tier: Tier
    signals: tuple[Signal, ...] = ()

    @property
    def said(self) -> str:
        told = "; ".join(f"{one.why} (+{one.points})" for one in self.signals)
        return f"risk {self.score} of 100, {self.tier}: {told}" if told else f"risk {self.score} of 100, {self.tier}"


class Sign(msgspec.Struct, frozen=True):
    points: int
    needles: list[str]
    """One of them stands in every text that it means: looked for first, since that is cheap."""
    pattern: str
    why: str

    def found_in(self, text: str, lowered: str) -> int:
        """How often."""
        if not any(needle in lowered for needle in self.needles):
            return 0
        return len(re.findall(self.pattern, text))


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...]
    added: str
    removed: str


def risk_of(tool: str, arguments: Mapping[str, Any]) -> Risk:
    change = _change(tool, arguments)
    signals = tuple(_signals(change))
    score = min(100, sum(one.points for one in signals))
    tier = next(tier for least, tier in TIERS if score >= least)
    return Risk(score=score, tier=tier, signals=signals)


SENSITIVE = re.compile(
    r"auth|session|passw|token|secret|crypt|permission|sql|query|database|login|payment|acl|sandbox", re.I
)
_BUILD = re.compile(
    r"(^|/)(package(-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|pyproject\.toml|setup\.(py|cfg)|requirements[\w.-]*\.txt"
    r"|cargo\.(toml|lock)|go\.(mod|sum)|gemfile(\.lock)?|pom\.xml|build\.gradle(\.kts)?|makefile|dockerfile"
    r"|docker-compose\.ya?ml|cmakelists\.txt|build\.rs|conftest\.py|tox\.ini|noxfile\.py|justfile)$",
    re.I,
)
_TEST = re.compile(r"(^|/)(tests?|spec|__tests__)(/|$)|(^|/)test_|_test\.|\.(test|spec)\.", re.I)
_SCHEMA = re.compile(r"(^|/)(migrations?|alembic)(/|$)|\.sql$", re.I)
ADDED: tuple[Sign, ...] = (
    Sign(
        35,
        ["verify", "unauthorized", "insecure", "cert_none", "stricthost"],
        r"verify\s*=\s*False|rejectUnauthorized\s*:\s*false|InsecureSkipVerify\s*:\s*true|CERT_NONE|--insecure\b"
        r"|NODE_TLS_REJECT_UNAUTHORIZED|StrictHostKeyChecking[ =]no",
        "switches off the check of certificates or hosts",
    ),
    Sign(
        35,
        ["private key", "akia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "sk-"],
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}",
        "holds what looks like a key",
    ),
    Sign(
        30,
        ["eval", "exec", "function", "pickle", "yaml.load", "marshal"],
        r"\b(eval|exec)\s{0,9}\(|\bnew Function\s{0,9}\(|\bpickle\.loads?\(|\byaml\.load\((?![^)]{0,200}Safe)"
        r"|\bmarshal\.loads\(",
        "runs or unpacks data as code",
    ),
    Sign(
        20,
        ["os.system", "shell", "child_process", "getruntime", "popen"],
        r"\bos\.system\(|shell\s{0,9}=\s{0,9}True|\bchild_process\b|\bRuntime\.getRuntime\(\)\.exec|\bpopen\(",
        "starts a shell",
    ),
    Sign(
        40,
        ["curl", "wget"],
        r"(curl|wget)[^\n|]{0,200}\|\s{0,9}(sudo\s{1,9})?(ba|z|da)?sh\b",
        "runs what it fetches",
    ),
    Sign(
        20,
        ["drop ", "truncate ", "delete "],
        r"(?im)\b(DROP|TRUNCATE)\s{1,9}(TABLE|DATABASE|SCHEMA)\b|\bDELETE\s{1,9}FROM\s{1,9}\w{1,99}\s{0,9}(;|$)",
        "empties or drops tables",
    ),
    Sign(
        20,
        ["select", "insert", "update", "delete"],
        r"(?i)\bf[\"'](SELECT|INSERT|UPDATE|DELETE)\b[^\"']{0,300}\{"
        r"|[\"'](SELECT|INSERT|UPDATE|DELETE)\b[^\"']{0,300}[\"']\s{0,9}(%|\+)",
        "builds SQL from text",
    ),
    Sign(
        15,
        ["except", "catch"],
        r"except\s{0,9}(Exception)?\s{0,9}:\s{0,99}pass\b|catch\s{0,9}\([^)]{0,200}\)\s{0,9}\{\s{0,99}\}",
        "swallows errors",
    ),
    Sign(
        20,
        ["skip", "#[ignore]", "--no-verify"],
        r"@pytest\.mark\.skip|\bpytest\.skip\(|\b(it|test|describe)\.skip\(|\bt\.Skip\(|#\[ignore\]|--no-verify\b",
        "skips tests or checks",
    ),
    Sign(15, ["777"], r"chmod\s{1,9}(-R\s{1,9})?0?777|\b0o777\b", "opens files to everybody"),
    Sign(
        10,
        ["http://", "https://"],
        r"\bhttps?://(?!(localhost|127\.0\.0\.1|example\.))\d{1,3}(\.\d{1,3}){3}",
        "names a machine by its number",
    ),
)
REMOVED: tuple[Sign, ...] = (
    Sign(20, ["test", "it("], r"(?m)^\s{0,99}(def test_|it\(|test\(|func Test|#\[test\])", "takes tests away"),
    Sign(15, ["assert", "expect("], r"\bassert\b|\.assert\w{0,40}\(|\bexpect\(", "takes assertions away"),
    Sign(
        20,
        ["authenticate", "authorize", "login", "check_permission", "verify_", "is_admin", "csrf", "escape", "sanitiz"],
        r"\b(authenticate|authorize|require_login|login_required|check_permission|verify_\w{1,40}|is_admin|csrf|escape"
        r"|sanitiz\w{1,20})\b",
        "takes a check away",
    ),
)
UNREADABLE_CHARS = 400
"""A word of so many letters is nothing that somebody reads."""


def _signals(change: _Change) -> Iterator[Signal]:
    paths = change.paths
    if any(is_protected(path) for path in paths):
        yield Signal(40, "a file that makes something run later")
    if sensitive := next((path for path in paths if SENSITIVE.search(path)), ""):
        yield Signal(25, f"{sensitive} is about access, secrets or data")
    if build := next((path for path in paths if _BUILD.search(path)), ""):
        yield Signal(15, f"{build} decides what is installed or run")
    if schema := next((path for path in paths if _SCHEMA.search(path)), ""):
        yield Signal(15, f"{schema} changes stored data")
    added, removed = change.added.lower(), change.removed.lower()
    for sign in ADDED:
        if sign.found_in(change.added, added) > sign.found_in(change.removed, removed):
            yield Signal(sign.points, sign.why)
    for sign in REMOVED:
        if sign.found_in(change.removed, removed) > sign.found_in(change.added, added):
            yield Signal(sign.points, sign.why)
    if max(map(len, change.added.split()), default=0) >= UNREADABLE_CHARS:
        yield Signal(20, "holds a long block that nobody can read")
    yield from _size(change)


def _size(change: _Change) -> Iterator[Signal]:
    added, removed = change.added.count("\n"), change.removed.count("\n")
    if len(change.paths) > 10:
        yield Signal(15, f"{len(change.paths)} files at once")
    if added + removed > 500:
        yield Signal(15, f"{added + removed} lines")
    if removed > 50 and removed > 3 * max(added, 1):
        yield Signal(15, f"{removed} lines go, {added} come")
    if all(_TEST.search(path) for path in change.paths) and change.paths and removed > added:
        yield Signal(10, "tests shrink")


def _change(tool: str, arguments: Mapping[str, Any]) -> _Change:
    paths = tuple(paths_of(tool, arguments))
    match tool:
        case "write":
            added, removed = str(arguments.get("content", "")), ""
        case "edit":
            added, removed = str(arguments.get("new", "")), str(arguments.get("old", ""))
        case _:
            lines = str(arguments.get("text", ""))[:TEXT_MAX].split("\n")
            added = "\n".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++"))
            removed = "\n".join(line[1:] for line in lines if line.startswith("-") and not line.startswith("---"))
    return _Change(paths=paths, added=added[:TEXT_MAX], removed=removed[:TEXT_MAX])
