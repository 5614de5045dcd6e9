"""apply_patch envelopes and the @@ sections within."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.errors import ToolFailure
from turnwright.tools.patch.apply_patch import parse_apply_patch
from turnwright.tools.patch.formats import detect, parse
from turnwright.tools.patch.operations import Missing, Obstacle, State, TextFile, paths_of, plan

FILE = "def a():\n    pass\n\ndef b():\n    pass\n"


def apply(text: str, files: dict[str, str]) -> dict[str, str]:
    operations = parse_apply_patch(text)
    states: dict[str, State] = {path: TextFile(content) for path, content in files.items()}
    for path in paths_of(operations):
        states.setdefault(path, Missing())
    done = dict(files)
    for change in plan(operations, states).changes:
        match change.after:
            case Missing():
                del done[change.path]
            case TextFile(text=content):
                done[change.path] = content
    return done


def update(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])


UPDATED = [
    ("@@ def b():\n-    pass\n+    return 1", FILE, "def a():\n    pass\n\ndef b():\n    return 1\n"),
    (" def b():\n-    pass\n+    return 1", FILE, "def a():\n    pass\n\ndef b():\n    return 1\n"),
    ("@@ def b():\n def b():\n-    pass\n+    return 1", FILE, "def a():\n    pass\n\ndef b():\n    return 1\n"),
    ("@@\n-    pass\n+    1\n@@\n-    pass\n+    2", FILE, "def a():\n    1\n\ndef b():\n    2\n"),
    ("@@\n-pass\n+1\n@@ def b():\n-pass\n+2", FILE, "def a():\n    1\n\ndef b():\n    2\n"),
    ("@@ def a():\n+    x = 1", FILE, "def a():\n    x = 1\n    pass\n\ndef b():\n    pass\n"),
    ("+at the end", FILE, FILE + "at the end\n"),
    ("@@\n-one\n+1", "one", "1\n"),
    ("@@\n-one\n+1", "one\nlast", "1\nlast"),
    ("+two", "one", "one\ntwo\n"),
    ("+two", "", "two\n"),
    ("@@\n one\n-two\n", "one\ntwo\n", "one\n"),
    ("@@\n-a – “b”\n+c", "x\na - \"b\"\n", "x\nc\n"),
    ("@@\n-x\n+y\n*** End of File", "x\na\nx\n", "x\na\ny\n"),
    ("@@\n-old\n+new\n\n\n", "old\nrest\n", "new\nrest\n"),
    ("@@ -1,3 +1,3 @@\n-old\n+new", "old\n", "new\n"),
]  # fmt: skip


@pytest.mark.parametrize(("patch", "before", "after"), UPDATED)
def test_update(patch: str, before: str, after: str) -> None:
    assert apply(update(patch), {"f": before}) == {"f": after}
    crlf = apply(update(patch).replace("\n", "\r\n"), {"f": before.replace("\n", "\r\n")})
    if "\n" in before:
        assert crlf == {"f": after.replace("\n", "\r\n")}


REFUSED = [
    (update("@@\n-    pass\n+    return 1"), "the change at line 3 of the patch fits at lines 2, 5."),
    (update("@@ def c():\n-    pass\n+    1"), "fits at lines 2, 5."),
    (update("@@ def c():\n+    1"), "'def c():', to which line 3 of the patch is anchored, is not there."),
    (update("@@\n-nope\n+1"), "Its first line is 'nope'; no line has it."),
    (update("@@\n-def b():\n+def c():\n@@\n-def a():\n+def d():"), "belongs before line 5"),
    (update("@@\n-    pass\n pass"), "does not match the file"),
    (update("@@"), "Line 3 of the patch opens a section that changes nothing"),
    (update(), "Line 2 of the patch updates f without saying how."),
    (update("@@\n def a():"), "The patch changes nothing"),
    (update("@@\nbare"), "Line 4 of the patch, 'bare', is neither context, - nor +."),
    ("*** Begin Patch\n*** Update File: ../f\n@@\n-a\n+b\n*** End Patch", "names '../f'"),
    ("*** Begin Patch\n*** Add File: /etc/x\n+b\n*** End Patch", "names '/etc/x'"),
    ("*** Begin Patch\n*** Delete File: g\n*** End Patch", "g: cannot be deleted, since it does not exist."),
    ("*** Begin Patch\n*** Delete File: f\nx\n*** End Patch", "deleting f takes no further lines"),
    ("*** Begin Patch\n*** Add File: f/g\n+b\n*** End Patch", "f/g: cannot be made, since f is a file."),
    ("*** Begin Patch\n*** Update File: f\n-a", "does not end with the line '*** End Patch'; it may have been cut"),
    ("*** Update File: f\n-a", "does not begin with the line '*** Begin Patch'"),
    ("Sure!\n*** Begin Patch\n*** Delete File: f\n*** End Patch", "Line 1, 'Sure!', stands before the patch."),
    ("*** Begin Patch\n*** End Patch", "The patch changes no files."),
]


@pytest.mark.parametrize(("patch", "said"), REFUSED)
def test_refused(patch: str, said: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        apply(patch, {"f": FILE})
    assert said in str(refused.value)


def test_operations_see_each_other() -> None:
    patch = """*** Begin Patch
*** Add File: new
+one
*** Update File: new
@@
-one
+two
*** Update File: f
*** Move to: g
*** Delete File: old
*** End Patch"""
    assert apply(patch, {"f": "x\n", "old": "y\n"}) == {"new": "two\n", "g": "x\n"}


@pytest.mark.parametrize("wrap", ["```\n{}\n```", "apply_patch <<'EOF'\n{}\nEOF", "\n\n{}\n\n"])
def test_wrappings_are_forgiven(wrap: str) -> None:
    patch = wrap.format("*** Begin Patch\n*** Add File: g\n+b\n*** End Patch")
    assert apply(patch, {}) == {"g": "b\n"}
    assert detect(patch) == "apply_patch"


def test_obstacles_are_named() -> None:
    operations = parse_apply_patch("*** Begin Patch\n*** Update File: a.png\n@@\n-x\n+y\n*** End Patch")
    with pytest.raises(ToolFailure, match=r"a\.png: cannot be updated, since it is PNG image"):
        plan(operations, {"a.png": Obstacle("PNG image")})


@pytest.mark.parametrize(
    ("text", "mode", "before", "after"),
    [
        ("+one\n+two\n+", "create", None, "one\ntwo\n"),
        ("+one\n+two", None, None, "one\ntwo"),
        ("@@\n-b\n+c", None, "a\nb", "a\nc"),
        ("*** Update File: f\n@@\n-b\n+c\n", None, "a\nb\n", "a\nc\n"),
    ],
)
def test_v4a_diff(text: str, mode: str | None, before: str | None, after: str) -> None:
    parsed = parse("v4a_diff", text, path="f", mode=mode)  # type: ignore[arg-type]
    state = Missing() if before is None else TextFile(before)
    (change,) = parsed.plan({"f": state}).changes
    assert change.after == TextFile(after)


@given(st.text("ab\n @*-+", max_size=80), st.text("ab\n ", max_size=40))
def test_no_text_is_a_fault(body: str, file: str) -> None:
    try:
        apply(update(body), {"f": file})
    except ToolFailure:
        pass


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12), st.data())
def test_a_change_with_all_the_file_as_context_always_applies(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    body = [f" {line}" for line in lines]
    body[at : at + 1] = [f"-{lines[at]}", "+NEW"]
    after = [*lines[:at], "NEW", *lines[at + 1 :]]
    file = "".join(f"{line}\n" for line in lines)
    assert apply(update("@@", *body), {"f": file}) == {"f": "".join(f"{line}\n" for line in after)}
