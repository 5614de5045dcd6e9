"""What a model may want to run or write, thrown at whatever decides whether it may."""

from __future__ import annotations

import posixpath
import time
from typing import Any

from hypothesis import strategies as st

from turnwright.schema.permissions import Rule, RuleLayer
from turnwright.session.permissions.decide import Policy, decide

SLOW_S = 1.0

PIECES = st.sampled_from(
    [
        "ls",
        "rm",
        "git",
        "sudo",
        "env",
        "xargs",
        "sh",
        "bash",
        "-c",
        "-rf",
        "--exec",
        "find",
        "-exec",
        "{}",
        "+",
        ";",
        "sed",
        "s/a/b/e",
        "awk",
        "$x",
        "${x:-y}",
        "$(ls)",
        "`ls`",
        "<(ls)",
        ">",
        ">>",
        "<",
        "<<",
        "<<<",
        "|",
        "||",
        "&",
        "&&",
        "!",
        "(",
        ")",
        "{",
        "}",
        "[[",
        "]]",
        "if",
        "then",
        "fi",
        "for",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "while",
        "a=b",
        "'a",
        "b'",
        '"a$b"',
        "\\",
        "#",
        "*",
        "?",
        "~",
        "/",
        "..",
        ".git/hooks/x",
        "E",
        "timeout",
        "5",
        "nice",
        "-n",
        "eval",
        "exec",
        "tar",
        "--checkpoint-action=exec=x",
        "rg",
        "--pre",
        "function",
        "f()",
        "$'\\x41'",
        "{a,b}",
        "2>&1",
        "/dev/tcp/h/1",
    ]
)
LINES = st.one_of(
    st.lists(PIECES | st.text(max_size=6), max_size=25).map(" ".join),
    st.lists(PIECES, max_size=12).map("\n".join),
    st.text(max_size=60),
    st.builds(lambda one, times: one * times, PIECES, st.integers(1, 3_000)),
    st.builds(
        lambda opening, closing, depth: opening * depth + "ls" + closing * depth,
        st.sampled_from(["$(", "(", "{ ", '"$(', "bash -c '", "<(", "${x:-", "eval "]),
        st.sampled_from([")", ")", "; }", ')"', "'", ")", "}", ""]),
        st.integers(1, 400),
    ),
)
RULES = st.lists(
    st.builds(
        Rule,
        tool=st.sampled_from(["bash", "*", "edit"]),
        pattern=st.sampled_from(["*", "git *", "rm *", "*x*y*z*", "", "ls"]),
        action=st.sampled_from(["allow", "ask", "deny"]),
    ),
    max_size=3,
)
CALLS = st.one_of(
    st.tuples(st.just("bash"), LINES.map(lambda line: {"command": line})),
    st.tuples(st.just("write"), st.builds(lambda p, c: {"path": p, "content": c}, PIECES, LINES)),
    st.tuples(st.just("patch"), LINES.map(lambda text: {"text": text})),
    st.tuples(st.just("mcp__x__y"), st.dictionaries(st.text(max_size=4), st.text(max_size=9), max_size=3)),
)
GIVEN = st.tuples(CALLS, RULES, st.integers(0, 4))


class _Ground:
    def inside(self, path: str) -> bool:
        return posixpath.normpath(posixpath.join("/w", path)).startswith("/w")


def judge(given: tuple[tuple[str, dict[str, Any]], list[Rule], int]) -> None:
    """Nothing raises, nothing takes long; what is denied at one level is not allowed at a lower one."""
    (tool, arguments), rules, autonomy = given
    layers = (RuleLayer(name="user", rules=tuple(rules)),)
    began = time.process_time()
    decision = decide(Policy(autonomy=autonomy, layers=layers), tool, "runs", arguments, _Ground())
    if time.process_time() - began > SLOW_S:
        raise AssertionError(f"{tool} took {time.process_time() - began:.1f} s")
    assert decision.judged and decision.rule
    if autonomy:
        lower = decide(Policy(autonomy=autonomy - 1, layers=layers), tool, "runs", arguments, _Ground())
        order = ("allow", "ask", "deny")
        assert order.index(lower.action) >= order.index(decision.action)
