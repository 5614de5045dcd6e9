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
ADDED: tuple[tuple[int, re.Pattern[str], str], ...] = (
    (
        35,
        re.compile(
            r"verify\s*=\s*False|rejectUnauthorized\s*:\s*false|InsecureSkipVerify\s*:\s*true|CERT_NONE|--insecure\b"
            r"|NODE_TLS_REJECT_UNAUTHORIZED|StrictHostKeyChecking[ =]no"
        ),
        "switches off the check of certificates or hosts",
    ),
    (
        35,
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}"
        ),
        "holds what looks like a key",
    ),
    (
        30,
        re.compile(
            r"\b(eval|exec)\s*\(|\bnew Function\s*\(|\bpickle\.loads?\(|\byaml\.load\((?![^)]*Safe)|\bmarshal\.loads\("
        ),
        "runs or unpacks data as code",
    ),
    (
        20,
        re.compile(r"\bos\.system\(|shell\s*=\s*True|\bchild_process\b|\bRuntime\.getRuntime\(\)\.exec|\bpopen\("),
        "starts a shell",
    ),
    (40, re.compile(r"(curl|wget)[^\n|]{0,200}\|\s*(sudo\s+)?(ba|z|da)?sh\b"), "runs what it fetches"),
    (
        20,
        re.compile(r"\b(DROP|TRUNCATE)\s+(TABLE|DATABASE|SCHEMA)\b|\bDELETE\s+FROM\s+\w+\s*(;|$)", re.I | re.M),
        "empties or drops tables",
    ),
    (
        20,
        re.compile(
            r"\bf[\"'](SELECT|INSERT|UPDATE|DELETE)\b[^\"']{0,300}\{|[\"'](SELECT|INSERT|UPDATE|DELETE)\b[^\"']{0,300}[\"']\s*(%|\+)",
            re.I,
        ),
        "builds SQL from text",
    ),
    (15, re.compile(r"except\s*(Exception)?\s*:\s*\n?\s*pass\b|catch\s*\([^)]*\)\s*\{\s*\}"), "swallows errors"),
    (
        20,
        re.compile(
            r"@pytest\.mark\.skip|\bpytest\.skip\(|\b(it|test|describe)\.skip\(|\bt\.Skip\(|#\[ignore\]|--no-verify\b"
        ),
        "skips tests or checks",
    ),
    (15, re.compile(r"chmod\s+(-R\s+)?0?777|\b0o777\b"), "opens files to everybody"),
    (20, re.compile(r"[A-Za-z0-9+/]{400,}={0,2}|(\\x[0-9a-f]{2}){80,}"), "holds a long block that nobody can read"),
    (
        10,
        re.compile(r"\bhttps?://(?!(localhost|127\.0\.0\.1|example\.))\d{1,3}(\.\d{1,3}){3}"),
        "names a machine by its number",
    ),
)
REMOVED: tuple[tuple[int, re.Pattern[str], str], ...] = (
    (20, re.compile(r"^\s*(def test_|it\(|test\(|func Test|#\[test\])", re.M), "takes tests away"),
    (15, re.compile(r"\bassert\b|\.assert\w*\(|\bexpect\(", re.M), "takes assertions away"),
    (
        20,
        re.compile(
            r"\b(authenticate|authorize|require_login|login_required|check_permission|verify_\w+|is_admin|csrf|escape|sanitiz\w+)\b"
        ),
        "takes a check away",
    ),
)


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
    for points, pattern, why in ADDED:
        if pattern.search(change.added) and not pattern.search(change.removed):
            yield Signal(points, why)
    for points, pattern, why in REMOVED:
        if len(pattern.findall(change.removed)) > len(pattern.findall(change.added)):
            yield Signal(points, why)
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
