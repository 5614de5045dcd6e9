"""The rule that *always* would add: wide enough to spare the next question, and no wider."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwright.schema.permissions import Rule
from turnwright.session.permissions.segments import Segment
from turnwright.session.permissions.syntax import UNKNOWN
from turnwright.session.permissions.words import words_of

NEVER = frozenset({"grave", "unparsed", "protected", "secret"})
EXACTLY = words_of(
    """
    rm python python3 node deno bun perl ruby php lua sh bash zsh dash fish eval exec source . curl
    wget ssh scp rsync nc dd kill pkill killall docker podman kubectl aws gcloud az osascript xargs
    find sed awk chmod chown ln npx uvx pipx env export alias git>push git>config npm>exec cargo>run
    """
)
"""What these do lies in their words, so only the very same words are spared."""
BY_TWO = words_of(
    """
    git npm pnpm yarn bun cargo go uv poetry pip pip3 make just task gradle mvn dotnet bundle rake
    composer mix gh terraform helm rustup nox tox hatch pdm conda
    """
)


def suggested(tool: str, segments: Sequence[Segment]) -> tuple[Rule, ...]:
    """One for each segment that asks; none at all where one of them must go on asking."""
    rules: list[Rule] = []
    for segment in segments:
        pattern = _pattern(tool, segment)
        if pattern is None:
            return ()
        rule = Rule(tool=tool, pattern=pattern, action="allow")
        if rule not in rules:
            rules.append(rule)
    return tuple(rules)


def _pattern(tool: str, segment: Segment) -> str | None:
    if segment.kind in NEVER or segment.why.startswith("which command"):
        return None
    if tool != "bash":
        return "*" if segment.kind == "foreign" else _exactly(segment.text)
    words = segment.text.split(" ")
    if re.match(r"[<>]", segment.text) or words[0] in EXACTLY or ">".join(words[:2]) in EXACTLY:
        return _exactly(segment.text)
    prefix = words[:2] if words[0] in BY_TWO and len(words) > 1 and not words[1].startswith("-") else words[:1]
    if any(UNKNOWN in word or "*" in word for word in prefix):
        return None
    return f"{' '.join(prefix)} *"


def _exactly(text: str) -> str | None:
    return None if UNKNOWN in text or "*" in text or len(text) > 300 else text
