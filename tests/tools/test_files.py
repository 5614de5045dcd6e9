"""read, write, edit and ls on a real machine."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from turnwright.schema.messages import Image
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.text import with_newlines

Run = Callable[..., Awaitable[ToolOutcome]]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_read_numbers_lines_and_pages(run: Run, workspace: Path) -> None:
    data = b"".join(b"line %d\n" % n for n in range(1, 31))
    (workspace / "a.txt").write_bytes(data)
    outcome = await run("read", path="a.txt", first_line=10, max_lines=3)
    assert outcome.output == "10\tline 10\n11\tline 11\n12\tline 12\n[lines 10 to 12 of 30; go on with first_line=13]"
    assert outcome.detail == {"sha256": sha(data), "lines": 30, "encoding": "utf-8"}
    assert (await run("read", path="a.txt", first_line=29)).output == "29\tline 29\n30\tline 30"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "src"}, "Error: src is a folder. List it with ls."),
        ({"path": "maim.py"}, "Error: maim.py does not exist. Did you mean main.py?"),
        ({"path": "no/where.py"}, "Error: no/where.py does not exist. Nor is there a folder no."),
        ({"path": "main.py", "first_line": 9}, "Error: main.py has 1 lines; there is no line 9."),
        ({"path": "tool.bin"}, "Error: tool.bin is not text but a ELF program or library of 8 bytes."),
        ({"path": "pipe"}, "Error: pipe: not a regular file but a named pipe."),
        ({"path": "../outside"}, "Error: ../outside: the path leads out of the workspace."),
        ({"path": "/etc/passwd"}, "Error: /etc/passwd: the path leads out of the workspace."),
        ({"path": "link"}, "Error: link: the path leads out of the workspace."),
    ],
)
async def test_read_refuses(run: Run, workspace: Path, arguments: dict[str, object], said: str) -> None:
    (workspace / "src").mkdir()
    (workspace / "main.py").write_text("x\n")
    (workspace / "tool.bin").write_bytes(b"\x7fELF\0\0\0\0")
    (workspace / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "pipe")
    outcome = await run("read", **arguments)
    assert (outcome.outcome, outcome.output) == ("failed", said)


async def test_an_image_is_seen(run: Run, workspace: Path) -> None:
    (workspace / "dot.png").write_bytes(PNG)
    outcome = await run("read", path="dot.png")
    assert outcome.images == (Image(media_type="image/png", data=base64.b64encode(PNG).decode()),)
    assert outcome.output == f"dot.png is a PNG image of {len(PNG)} bytes."


async def test_odd_contents_are_shown_plainly(run: Run, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\x1b[31mred\x1b[0m\x07\r\n" + b"x" * 5000 + b"\n\n")
    shown = (await run("read", path="a")).output.split("\n")
    assert shown[0] == "1\t␛[31mred␛[0m␇"
    assert shown[1] == f"2\t{'x' * 2000} [... line of 5,000 characters, cut]"
    assert shown[2:] == ["3\t"]
    (workspace / "empty").touch()
    assert (await run("read", path="empty")).output == "(empty is empty)"


async def test_a_page_ends_before_the_limit_of_the_registry(run: Run, workspace: Path) -> None:
    (workspace / "wide").write_text("y" * 1000 + "\n")
    (workspace / "wide").write_text(("y" * 1000 + "\n") * 100)
    outcome = await run("read", path="wide")
    assert outcome.original_bytes is None
    assert outcome.output.endswith("[lines 1 to 47 of 100; go on with first_line=48]")


async def test_a_file_too_large_to_hold_is_read_in_pages(run: Run, workspace: Path) -> None:
    with (workspace / "big").open("wb") as big:
        for start in range(0, 2_000_000, 20_000):
            big.write(b"".join(b"row %07d\n" % n for n in range(start + 1, start + 20_001)))
    outcome = await run("read", path="big", first_line=1_234_567, max_lines=2)
    assert outcome.output == (
        "1234567\trow 1234567\n1234568\trow 1234568\n[lines 1,234,567 to 1,234,568; go on with first_line=1234569]"
    )
    assert (await run("read", path="big", first_line=2_000_000)).output == "2000000\trow 2000000"
    assert "there is no line 2,000,001" in (await run("read", path="big", first_line=2_000_001)).output
    assert "larger than" in (await run("edit", path="big", old="a", new="b")).output


async def test_write_makes_folders_and_says_hashes(run: Run, workspace: Path) -> None:
    outcome = await run("write", path="deep/er/a.txt", content="hello\n")
    assert (workspace / "deep/er/a.txt").read_bytes() == b"hello\n"
    assert outcome.output == "Made deep/er/a.txt: 1 line, 6 bytes."
    assert outcome.detail == {"sha256_before": None, "sha256_after": sha(b"hello\n")}
    again = await run("write", path="./deep/er/a.txt", content="bye\n")  # what one wrote one knows
    assert again.detail == {"sha256_before": sha(b"hello\n"), "sha256_after": sha(b"bye\n")}


@pytest.mark.parametrize("name", ["write", "edit"])
async def test_what_was_not_read_is_not_changed(run: Run, workspace: Path, name: str) -> None:
    file = workspace / "a.txt"
    file.write_text("one\ntwo\n")
    arguments = {"content": "new\n"} if name == "write" else {"old": "one", "new": "1"}
    unread = await run(name, path="a.txt", **arguments)
    assert unread.output == "Error: a.txt has not been read yet. Read it first, then change it."
    await run("read", path="a.txt")
    file.write_text("one\ntwo\nthree\n")
    stale = await run(name, path="a.txt", **arguments)
    assert stale.output == "Error: a.txt has changed since you read it. Read it again, then change it."
    assert file.read_text() == "one\ntwo\nthree\n"
    await run("read", path="a.txt")
    assert (await run(name, path="a.txt", **arguments)).outcome == "ok"


async def test_an_empty_file_needs_no_reading(run: Run, workspace: Path) -> None:
    (workspace / "__init__.py").touch()
    assert (await run("write", path="__init__.py", content="x = 1\n")).outcome == "ok"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"ONE\r\nextra\r\ntwo\r\n"),
        (b"\xef\xbb\xbfone\ntwo", b"\xef\xbb\xbfONE\nextra\ntwo"),
        ("\ufeffone\r\ntwo\r\n".encode("utf-16-le"), "\ufeffONE\r\nextra\r\ntwo\r\n".encode("utf-16-le")),
        ("\ufeffone\ntwo é\n".encode("utf-16-be"), "\ufeffONE\nextra\ntwo é\n".encode("utf-16-be")),
        ("one\ntwo é\n".encode("latin-1"), "ONE\nextra\ntwo é\n".encode("latin-1")),
        (b"one\rtwo\r", b"ONE\rextra\rtwo\r"),
        (b"zero\none\ntwo\r\n", b"zero\nONE\nextra\ntwo\r\n"),
    ],
)
async def test_edit_and_write_keep_encoding_and_line_ends(
    run: Run, workspace: Path, before: bytes, after: bytes
) -> None:
    for name in ("edited", "written"):
        (workspace / name).write_bytes(before)
        (workspace / name).chmod(0o751)
        await run("read", path=name)
    edited = await run("edit", path="edited", old="one\n", new="ONE\nextra\n")
    assert (workspace / "edited").read_bytes() == after
    assert (edited.detail["sha256_before"], edited.detail["sha256_after"]) == (sha(before), sha(after))
    assert (workspace / "edited").stat().st_mode & 0o777 == 0o751
    if b"zero" not in before:  # a mixture cannot be told from the content
        encoding = str((await run("read", path="edited")).detail["encoding"])
        text = after.decode("utf-16" if encoding.startswith("utf-16") else encoding)
        await run("write", path="written", content=with_newlines(text))
        assert (workspace / "written").read_bytes() == after


async def test_what_an_encoding_cannot_hold_is_refused(run: Run, workspace: Path) -> None:
    (workspace / "a").write_bytes("é\n".encode("latin-1"))
    await run("read", path="a")
    outcome = await run("edit", path="a", old="é", new="→")
    assert "a is encoded as latin-1, which cannot hold '→' (U+2192)." in outcome.output
    assert (workspace / "a").read_bytes() == b"\xe9\n"


async def test_edit_says_how_it_matched(run: Run, workspace: Path) -> None:
    (workspace / "a.py").write_text("def f():\n    if x:\n        return 1\n")
    await run("read", path="a.py")
    outcome = await run("edit", path="a.py", old="if x:\n    return 1", new="if y:\n    return 2")
    assert (workspace / "a.py").read_text() == "def f():\n    if y:\n        return 2\n"
    assert outcome.output == (
        "Edited a.py at line 2. The text did not match exactly; it was found by: indentation shifted."
    )
    assert outcome.detail["matcher"] == "indentation shifted"


async def test_edit_every_place(run: Run, workspace: Path) -> None:
    (workspace / "a").write_text("x\ny\nx\n")
    await run("read", path="a")
    assert "found 2 times (match: exact), at lines 1, 3." in (await run("edit", path="a", old="x", new="z")).output
    outcome = await run("edit", path="a", old="x", new="z", replace_all=True)
    assert outcome.output == "Edited a at 2 places, lines 1, 3."
    assert (workspace / "a").read_text() == "z\ny\nz\n"


async def test_hard_links_and_folders_are_not_written(run: Run, workspace: Path) -> None:
    (workspace / "a").write_text("x\n")
    (workspace / "b").hardlink_to(workspace / "a")
    await run("read", path="a")
    assert "hard links" in (await run("edit", path="a", old="x", new="y")).output
    (workspace / "d").mkdir()
    assert (await run("write", path="d", content="x")).outcome == "failed"
    assert (workspace / "b").read_text() == "x\n"


async def test_ls(run: Run, workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "a.txt").write_text("12345")
    (workspace / ".hidden").touch()
    (workspace / "to").symlink_to("src")
    assert (await run("ls")).output == ".hidden\t0\na.txt\t5\nsrc/\nto@"
    assert (await run("ls", path="src")).output == "(src is empty)"
    assert (await run("ls", path="a.txt")).output == "Error: a.txt is not a folder. Read it with read."
    assert "leads out" in (await run("ls", path="..")).output
