"""What a request is about: `analysis`, `action` or `other`, by plain words that anybody can check.

A request begins, as a rule, with what is wanted: the first such word counts most. It decides no more than how long a
turn may look before it must have found something (`guards.progress`), and `loop.task_class` overrides it.
"""

from __future__ import annotations

import re

import msgspec

from turnwright.schema.verdicts import TaskClass

SCORED_CHARS = 4_000
"""What stands further behind is mostly pasted."""
FIRST = 3
HANDS_OFF = 4
QUESTION = 2

ACTION = frozenset(
    (
        "add", "adjust", "apply", "build", "bump", "change", "clean", "commit", "configure", "convert", "create",
        "delete", "deploy", "drop", "edit", "enable", "extend", "extract", "fix", "format", "generate", "implement",
        "improve", "inline", "insert", "install", "introduce", "make", "merge", "migrate", "modify", "move", "optimise",
        "optimize", "patch", "port", "refactor", "remove", "rename", "repair", "replace", "resolve", "restore",
        "rewrite", "run", "set", "setup", "simplify", "solve", "split", "upgrade", "update", "wire", "write",
    )
)  # fmt: skip
ANALYSIS = frozenset(
    (
        "analyse", "analyze", "assess", "audit", "check", "compare", "count", "debug", "describe", "determine",
        "diagnose", "document", "evaluate", "examine", "explain", "explore", "find", "how", "identify", "inspect",
        "investigate", "list", "locate", "look", "outline", "profile", "read", "report", "research", "review", "search",
        "show", "study", "summarise", "summarize", "tell", "trace", "understand", "verify", "what", "where", "which",
        "who", "why",
    )
)  # fmt: skip
POLITE = frozenset(
    (
        "please", "can", "could", "would", "will", "you", "i", "we", "want", "need", "to", "now", "then", "also",
        "let's", "lets", "just", "kindly", "hi", "hello", "hey", "should", "must", "the", "a", "next", "first", "and",
        "help", "me", "us", "go", "ahead", "try", "like", "d",
    )
)  # fmt: skip
ORDERED_OFF = (
    "read-only", "read only", "do not change", "don't change", "do not edit", "don't edit", "do not modify",
    "don't modify", "without changing", "change nothing", "no changes", "only report",
)  # fmt: skip
_WORD = re.compile(r"[a-z][a-z'-]{0,40}")


class Found(msgspec.Struct, frozen=True):
    task_class: TaskClass
    signals: tuple[str, ...]
    """What speaks for it, as `word +points`."""


def task_class_of(request: str) -> Found:
    text = request[:SCORED_CHARS].lower().replace("’", "'")
    action: dict[str, int] = {}
    analysis: dict[str, int] = {}
    words = _WORD.findall(text)
    first = next((word for word in words if word not in POLITE), "")
    for word in words:
        for points, known in ((action, ACTION), (analysis, ANALYSIS)):
            if word in known:
                points[word] = FIRST if word == first else max(points.get(word, 0), 1)
    for order in ORDERED_OFF:
        if order in text:
            analysis[order] = HANDS_OFF
    if text.rstrip().endswith("?") and first not in ACTION:
        analysis["?"] = QUESTION
    wins: TaskClass = "action" if sum(action.values()) >= sum(analysis.values()) else "analysis"
    points = action if wins == "action" else analysis
    if not points:
        return Found("other", ())
    return Found(wins, tuple(f"{word} +{worth}" for word, worth in sorted(points.items(), key=_heaviest)[:6]))


def _heaviest(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
