"""glob and grep with a real ripgrep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.globs import Glob
from turnwright.tools.registry import Toolbox

Run = Callable[..., Awaitable[ToolOutcome]]


@pytest.fixture
def project(workspace: Path) -> Path:
    files = {
        "src/app.py": "import os\n\ndef main():\n    return 'needle'\n",
        "src/deep/er/mod.py": "needle = 1\nneedle += 1\n",
        "src/style.css": ".needle {}\n",
        "README.md": "A Needle here\n",
        ".config/x.toml": "needle = true\n",
        "build/out.py": "needle\n",
        "notes.log": "needle\n",
        ".git/config": "needle\n",
        ".gitignore": "build/\n*.log\n",
    }
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    (workspace / "blob.bin").write_bytes(b"needle\0\0needle")
    return workspace


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["src/app.py", "src/deep/er/mod.py"]),
        ("src/*.py", ".", ["src/app.py"]),
        ("**/mod.py", ".", ["src/deep/er/mod.py"]),
        ("*.{py,css}", "src", ["src/app.py", "src/deep/er/mod.py", "src/style.css"]),
        ("deep/**", "src", ["src/deep/er/mod.py"]),
        ("*.toml", ".", [".config/x.toml"]),
        ("*.log", ".", []),
        ("config", ".", []),
    ],
)
@pytest.mark.usefixtures("project")
async def test_glob(run: Run, pattern: str, path: str, expected: list[str]) -> None:
    outcome = await run("glob", pattern=pattern, path=path)
    assert outcome.output == ("\n".join(expected) or f"No file matches {pattern!r}.")
    assert outcome.detail == {"matches": len(expected)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"pattern": "needle"},
            ".config/x.toml:1:needle = true\nsrc/app.py:4:    return 'needle'\nsrc/deep/er/mod.py:1:needle = 1\n"
            "src/deep/er/mod.py:2:needle += 1\nsrc/style.css:1:.needle {}",
        ),
        (
            {"pattern": "NEEDLE", "ignore_case": True, "glob": "*.md"},
            "README.md:1:A Needle here",
        ),
        ({"pattern": "needle", "path": "src", "show": "files"}, "src/app.py\nsrc/deep/er/mod.py\nsrc/style.css"),
        ({"pattern": "needle", "glob": "src/**/*.py", "show": "counts"}, "src/app.py:1\nsrc/deep/er/mod.py:2"),
        ({"pattern": "needle", "glob": "!*.py", "show": "files"}, ".config/x.toml\nsrc/style.css"),
        (
            {"pattern": "main", "context": 1},
            "src/app.py-2-\nsrc/app.py:3:def main():\nsrc/app.py-4-    return 'needle'",
        ),
        ({"pattern": "needle += 1", "literal": True}, "src/deep/er/mod.py:2:needle += 1"),
        ({"pattern": "needle", "path": "src/style.css"}, "src/style.css:1:.needle {}"),
        ({"pattern": "--needle"}, "Nothing matches '--needle'."),
        (
            {"pattern": "needle", "max_results": 1},
            ".config/x.toml:1:needle = true\n[stopped after 1 results; narrow the pattern, the path or the glob]",
        ),
    ],
)
@pytest.mark.usefixtures("project")
async def test_grep(run: Run, arguments: dict[str, object], expected: str) -> None:
    assert (await run("grep", **arguments)).output == expected


@pytest.mark.usefixtures("project")
async def test_searches_that_cannot_be_made(run: Run) -> None:
    assert "unclosed group" in (await run("grep", pattern="(")).output
    assert (await run("grep", pattern="x", path="nowhere")).output == "Error: nowhere does not exist."
    assert "leads out" in (await run("grep", pattern="root", path="/etc")).output
    assert "leads out" in (await run("glob", pattern="*", path="..")).output
    assert "must be relative" in (await run("glob", pattern="/etc/*")).output


async def test_a_flood_of_matches_is_stopped(run: Run, workspace: Path) -> None:
    (workspace / "flood").write_bytes(b"needle " * 50 + b"\n")
    (workspace / "flood").write_bytes((b"needle " * 50 + b"\n") * 200_000)
    (workspace / "line").write_bytes(b"pin " * 5_000_000)
    outcome = await run("grep", pattern="needle", max_results=2000)
    assert "[stopped after" in outcome.output
    assert outcome.original_bytes is None
    one = await run("grep", pattern="pin", path="line")
    assert len(one.output) < 1_000


def searches_in(folder: Path) -> list[Path]:
    """The processes that work in a folder."""
    return [each for each in Path("/proc").glob("[0-9]*") if _is_in(each, folder)]


def _is_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False  # it has ended


async def test_cancelling_a_search_leaves_nothing(box: Toolbox, workspace: Path, call: Any) -> None:
    for n in range(50):
        (workspace / f"f{n}").write_bytes(b"a" * 1_000_000)
    task = asyncio.create_task(box.run("grep", {"pattern": r"(?:\w{1,40}a){30}z"}, call))
    while not await asyncio.to_thread(searches_in, workspace):
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(20):
        while searches_in(workspace):
            await asyncio.sleep(0.05)


GLOBS = [
    ("*.py", "a.py", True),
    ("*.py", "x/y/a.py", True),
    ("a/*.py", "a/b/c.py", False),
    ("a/**/c.py", "a/c.py", True),
    ("a/**/c.py", "a/b/b/c.py", True),
    ("**", "a/b", True),
    ("a/?.[ch]", "a/x.h", True),
    ("{a,b{c,d}}/*", "bd/x", True),
    ("{a,b{c,d}}/*", "b/x", False),
    ("./a/*", "a/x", True),
    ("{a", "{a", True),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), GLOBS)
def test_globs(pattern: str, path: str, expected: bool) -> None:
    assert Glob(pattern).matches(path) is expected


@given(st.text("ab*?{},/[]!.", min_size=1, max_size=60), st.text("ab/.", min_size=1, max_size=200))
def test_no_glob_fails_or_lingers(pattern: str, path: str) -> None:
    try:
        Glob(pattern).matches(path)
    except ToolFailure:
        pass


def test_many_stars_take_no_time() -> None:
    assert not Glob("**/a" * 30 + "/b").matches("a/" * 2_000 + "c")
    assert not Glob("*a" * 30 + "b").matches("a" * 2_000)
