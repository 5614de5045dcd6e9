"""Unified diffs: from git itself, from difflib on random texts, and as models get them wrong."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.errors import ToolFailure
from turnwright.tools.patch.directory import apply_to_directory
from turnwright.tools.patch.operations import Add, Delete, Missing, State, TextFile, Update, paths_of, plan
from turnwright.tools.patch.udiff import parse_udiff


def split(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def diff(before: str, after: str, context: int = 3) -> str:
    """As `diff -u` writes it, missing final newlines included."""
    made = difflib.unified_diff(split(before), split(after), "a/f", "b/f", n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)


def apply(patch: str, before: str) -> str:
    operations = parse_udiff(patch)
    (change,) = plan(operations, {"f": TextFile(before)}).changes
    assert isinstance(change.after, TextFile)
    return change.after.text


TEXTS = st.text("ab\n\r \t+-@\\", max_size=60)


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_a_diff_applied_gives_the_other_text(before: str, after: str, context: int) -> None:
    if before != after:
        assert apply(diff(before, after, context), before) == after


@given(st.lists(st.text("abc", max_size=3), max_size=12), st.lists(st.text("abc", max_size=3), max_size=12))
def test_line_ends_of_the_file_are_kept(before: list[str], after: list[str]) -> None:
    """A diff with plain newlines for a file that has others."""
    if before == after:
        return
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    patch = diff(old, new)
    if len(before) > 1:
        assert apply(patch, old.replace("\n", "\r\n")) == new.replace("\n", "\r\n")
    assert apply(patch.replace("\n", "\r\n"), old) == new


def test_git_diffs_round_trip(tmp_path: Path) -> None:
    """Adding, deleting, renaming, modes, odd names and line ends, as git writes them."""
    old, new, work = tmp_path / "old", tmp_path / "new", tmp_path / "work"
    files = {
        "keep.txt": ("same\n" * 5, "same\n" * 5),
        "change me.txt": ("".join(f"{n}\n" for n in range(50)), "".join(f"{n * (n % 9 > 0)}\n" for n in range(50))),
        "crlf.txt": ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\n"),
        "noend": ("x\ny", "x\nz"),
        "größe\t.txt": ("1\n", "2\n"),
        "gone": ("bye\n", None),
        "sub/new": (None, "hi\n-- \n"),
        "empty": (None, ""),
        "from": ("long enough to be seen as the same\n" * 9, None),
        "to": (None, "long enough to be seen as the same\n" * 9 + "more\n"),
    }
    for root, index in ((old, 0), (work, 0), (new, 1)):
        for name, texts in files.items():
            if (text := texts[index]) is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(text.encode())
    (new / "noend").chmod(0o755)
    command = ["git", "diff", "--no-index", "--no-prefix", "-M", "--src-prefix=a/", "--dst-prefix=b/", "old", "new"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
    patch = made.replace("a/old/", "a/").replace("b/new/", "b/").replace("a/new/", "a/").replace("b/old/", "b/")
    patch = patch.replace("rename from old/", "rename from ").replace("rename to new/", "rename to ")
    assert "rename from from" in patch and "GIT binary" not in patch
    apply_to_directory("udiff", patch, work)

    def tree(root: Path) -> dict[str, tuple[bytes, int]]:
        return {
            str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
            for path in root.rglob("*")
            if path.is_file()
        }

    assert tree(work) == tree(new)


TOLERATED = [
    ("@@ -9,2 +9,2 @@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\n"),  # wrong line
    ("@@ -2,9 +2,9 @@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\n"),  # counts too large
    ("@@ -2,1 +2,1 @@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\n"),  # counts too small
    ("@@ @@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\n"),
    ("@@\n two\n-three\n+3\n", "one\ntwo\n3\nfour\n"),
    ("@@ ... @@\n-three\n+3\n\n", "one\ntwo\n3\nfour\n"),
    ("@@ -2,2 +2,2 @@ def f():\n two  \n-three\n+3\n", "one\ntwo\n3\nfour\n"),  # space at line ends
    ("@@ -1 +1 @@\n-one\n+1\n@@ -4 +4 @@\n-four\n+4\n", "1\ntwo\nthree\n4\n"),
    ("@@ -3,2 +3,2 @@\n three\n-four\n+4\n-- \n2.39.5\n", "one\ntwo\nthree\n4\n"),
]


@pytest.mark.parametrize(("hunks", "after"), TOLERATED)
def test_what_models_get_wrong(hunks: str, after: str) -> None:
    assert apply(f"--- a/f\n+++ b/f\n{hunks}", "one\ntwo\nthree\nfour\n") == after


REFUSED = [
    ("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-x\n+y\n", "line 2 is 'two', and not 'x'. Nor do its lines stand elsewhere."),
    ("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-same\n+y\n", "fits at lines 5, 6, and not at line 2 as it says."),
    ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n@@ -1 +1 @@\n-one\n+2\n", "does not match the file"),
    ("--- a/f\n+++ b/f\n@@ -90,0 +91 @@\n+x\n", "adds after a line that is not there"),
    ("--- a/../g\n+++ b/../g\n@@ -1 +1 @@\n-a\n+b\n", "names '../g'"),
    ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "f: cannot be added, since it exists."),
    ("--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", "f: cannot be deleted, since it has more in it"),
    ("diff --git a/f b/f\nGIT binary patch\nliteral 3\n", "Line 2 of the patch is about binary data"),
    ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n", "asks for mode 120000"),
    ("diff --git a/f b/f\nindex 1..2\n", "names f without changing it"),
    ("@@ -1 +1 @@\n-a\n+b\n", "begins a hunk before any file was named"),
    ("nothing here", "There is no file in the patch."),
]


@pytest.mark.parametrize(("patch", "said"), REFUSED)
def test_refused(patch: str, said: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        operations = parse_udiff(patch)
        states: dict[str, State] = dict.fromkeys(paths_of(operations), Missing())
        plan(operations, states | {"f": TextFile("one\ntwo\nthree\nfour\nsame\nsame\n")})
    assert said in str(refused.value)


def test_headers() -> None:
    patch = (
        "--- x.orig\t2026-01-01 00:00:00\n+++ x\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n"
        '--- "a/t\\303\\244b\\t"\n+++ "b/t\\303\\244b\\t"\n@@ -1 +1 @@\n-a\n+b\n'
        "--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n"
    )
    x, named, gone, made = parse_udiff(patch)
    assert isinstance(x, Update) and (x.path, x.move_to) == ("x", None)
    assert isinstance(named, Update) and named.path == "täb\t"
    assert isinstance(gone, Delete) and gone.path == "d"
    assert made == Add(path="n", text="a\n", only_new=True)


@given(st.text("ab\n+-@ \\,1", max_size=80))
def test_no_text_is_a_fault(body: str) -> None:
    try:
        apply(f"--- a/f\n+++ b/f\n{body}", "a\nb\n")
    except ToolFailure:
        pass
