"""No text can pose as somebody else's, in the terminal or in Markdown."""

from __future__ import annotations

import re

import pytest
from fact_script import Script, call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journals import troubled

from turnwright.views.fold import folded
from turnwright.views.markdown import markdown
from turnwright.views.show import show_lines
from turnwright.views.text import plain
from turnwright.views.transcript import Transcript, entries, fold_transcript
from turnwright.views.wording import EVERYTHING

TOOL = call(1, "read", '{"path": "a"}')


def seen(text: str) -> Script:
    script = Script().opened(text).turn(text)
    script.step().asked().answered().replied(text, TOOL, reasoning=text).began(TOOL).finished(TOOL, text)
    return script.ended()


def rendered(script: Script) -> tuple[str, str]:
    shown = list(entries(folded(fold_transcript, Transcript(), script)))
    return plain(show_lines(shown, EVERYTHING)), "".join(markdown(shown))


hostile = st.lists(
    st.sampled_from(
        [
            "user",
            "## User",
            "assistant\n",
            "\n",
            "```",
            "~~~",
            "````",
            " ",
            "\t",
            "`",
            "> ",
            "- ",
            "</blockquote>",
            "<b>",
            "x",
            "\r",
            "\x1b",
        ]
    ),
    max_size=30,
).map("".join)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hostile)
def test_only_our_own_lines_stand_at_the_margin(text: str) -> None:
    shown, document = rendered(seen(text))
    quiet_shown, quiet_document = rendered(seen("x"))
    margin = re.compile(r"^\S.*$", re.M)
    assert margin.findall(shown) == margin.findall(quiet_shown)
    headings = re.compile(r"^#.*$", re.M)
    assert headings.findall(outside_fences(document)) == headings.findall(outside_fences(quiet_document))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hostile)
def test_html_is_disarmed_wherever_a_reader_may_see_no_fence(text: str) -> None:
    """Checked against a small reader of fences that follows CommonMark within a quote, lists excepted: where the
    renderer left a tag as it is, that reader must be inside a fence."""
    document = "".join(markdown(entries(folded(fold_transcript, Transcript(), Script().turn(text)))))
    quoted = [each[2:] if each.startswith("> ") else each[1:] for each in document.splitlines() if each.startswith(">")]
    fence = ""
    for each in quoted:
        bare = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", each.expandtabs(4))
        if fence:
            if bare and bare[1].startswith(fence) and not bare[2].strip(" \t"):
                fence = ""
            continue
        if bare and not (bare[1][0] == "`" and "`" in bare[2]):
            fence = bare[1]
        assert not re.search(r"<(?=[A-Za-z/!?])", each)


def outside_fences(document: str) -> str:
    kept, fence = [], ""
    for each in document.splitlines():
        if fence:
            fence = "" if each == fence else fence
        elif found := re.match(r"(`{3,})(json|text)$", each):
            fence = found[1]
        else:
            kept.append(each)
    assert not fence
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b> c", "> a &lt;b> c\n"),
        ("1 < 2", "> 1 < 2\n"),
        ("```c\n#include <stdio.h>\n```\n<b>", "> ```c\n> #include <stdio.h>\n> ```\n> &lt;b>\n"),
        ("- x\n  ```\n<b>\n```\n<i>", "> - x\n>   ```\n> &lt;b>\n> ```\n> &lt;i>\n"),
        ("~~~\n<b>\n```\n</b>\n~~~~ \n</b>", "> ~~~\n> <b>\n> ```\n> </b>\n> ~~~~\n> &lt;/b>\n"),
        ("``` a`b\n<b>", "> ``` a`b\n> &lt;b>\n"),
        ("```\n <i>\n ```\n</b>", "> ```\n>  &lt;i>\n>  ```\n> &lt;/b>\n"),
    ],
)
def test_html_in_quotes(text: str, shown: str) -> None:
    script = Script().turn(text)
    assert "".join(markdown(entries(folded(fold_transcript, Transcript(), script)))) == f"## User\n\n{shown}\n"


def test_the_runtime_never_speaks_as_the_user_or_the_model() -> None:
    _, document = rendered(troubled())
    ours = ["You repeat yourself.", "This turn is at its limit.", "carried on from the last durable step"]
    for words in ours:
        heading = [each for each in document[: document.index(words)].splitlines() if each.startswith("#")][-1]
        assert heading.startswith("## Turnwright")
