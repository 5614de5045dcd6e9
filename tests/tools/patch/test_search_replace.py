"""SEARCH/REPLACE blocks beyond the recorded ones."""

from __future__ import annotations

import pytest

from turnwright.schema.errors import ToolFailure
from turnwright.tools.patch.formats import detect, parse
from turnwright.tools.patch.operations import Missing, TextFile
from turnwright.tools.patch.search_replace import parse_search_replace


def block(search: str, replace: str, width: int = 7) -> str:
    return f"{'<' * width} SEARCH\n{search}{'=' * width}\n{replace}{'>' * width} REPLACE\n"


@pytest.mark.parametrize(
    ("above", "path"),
    [
        ("src/a.py\n", "src/a.py"),
        ("**src/a.py**\n", "src/a.py"),
        ("### `src/a.py`:\n", "src/a.py"),
        ("src/a.py\n```python\n", "src/a.py"),
        ("```python src/a.py\n```\n", ""),
        ("```src/a.py\n", "src/a.py"),
        ("Makefile\n", "Makefile"),
        ("Here is the change:\n", ""),
        ("a.py\n\n```\n", "a.py"),
    ],
)
def test_the_path_above(above: str, path: str) -> None:
    text = above + block("a\n", "b\n")
    if path:
        assert [found.path for found in parse_search_replace(text)] == [path]
    else:
        with pytest.raises(ToolFailure, match="does not say which file it is for"):
            parse_search_replace(text)


def test_a_heading_of_another_width_is_text() -> None:
    (found,) = parse_search_replace("doc.md\n" + block("Title\n=====\n", "Other\n=====\n"))
    assert (found.search, found.replace) == ("Title\n=====\n", "Other\n=====\n")


def test_blocks_apply_in_order_and_say_how() -> None:
    text = "f.py\n" + block("a = 1\n", "a = 2\n") + block("a = 2\nb = 1\n", "a = 3\n")
    assert detect(text) == "search_replace"
    plan = parse("search_replace", text).plan({"f.py": TextFile("  a = 1\n  b = 1\n")})
    assert [change.after for change in plan.changes] == [TextFile("  a = 3\n")]
    assert plan.report == (
        "updated f.py",
        "  the block at line 2 matched line 1 by: indentation shifted",
        "  the block at line 7 matched line 1 by: indentation shifted",
    )


def test_refusals_name_the_block() -> None:
    parsed = parse("search_replace", "f\n" + block("a\n", "b\n") + block("x\n", "y\n"))
    with pytest.raises(ToolFailure, match="Block at line 7: f: the text to replace is not in the file"):
        parsed.plan({"f": TextFile("a\n")})
    with pytest.raises(ToolFailure, match="found 2 times"):
        parsed.plan({"f": TextFile("a\na\n")})
    with pytest.raises(ToolFailure, match="f: cannot be updated, since it does not exist"):
        parsed.plan({"f": Missing()})
    empty = parse("search_replace", "f\n" + block("", "new\n"))
    with pytest.raises(ToolFailure, match="searches for nothing, but the file is not empty"):
        empty.plan({"f": TextFile("a\n")})
    assert [change.after for change in empty.plan({"f": TextFile("")}).changes] == [TextFile("new\n")]
    with pytest.raises(ToolFailure, match="no `=======`; it may have been cut off"):
        parse_search_replace("f\n<<<<<<< SEARCH\na\n")
    with pytest.raises(ToolFailure, match="There is no SEARCH/REPLACE block"):
        parse_search_replace("nothing")
