"""All or nothing, whatever fails: `patch apply` on a folder, and the tool on a machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from turnwright.machine import beneath
from turnwright.machine.local import LocalMachine
from turnwright.schema.errors import InputError, ToolFailure
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.context import FilesRead
from turnwright.tools.patch import directory
from turnwright.tools.patch.directory import apply_to_directory
from turnwright.tools.patch.formats import parse
from turnwright.tools.patch.machine import MachineFiles

Run = Callable[..., Awaitable[ToolOutcome]]

ROOT = os.geteuid() == 0
"""Whom no mode keeps from writing."""

PATCH = """*** Begin Patch
*** Add File: made/deep/new.txt
+new
*** Update File: a.txt
@@
-one
+ONE
*** Update File: b.txt
*** Move to: moved/b.txt
@@
-two
+TWO
*** Delete File: c.txt
*** End Patch
"""
BEFORE = {"a.txt": b"one\r\n", "b.txt": b"\xef\xbb\xbftwo\n", "c.txt": b"three\n", "d.bin": b"\0\1"}
AFTER = {"a.txt": b"ONE\r\n", "moved/b.txt": b"\xef\xbb\xbfTWO\n", "made/deep/new.txt": b"new\n", "d.bin": b"\0\1"}


def plant(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    for name, data in BEFORE.items():
        (root / name).write_bytes(data)
    (root / "b.txt").chmod(0o755)
    return root


def tree(root: Path) -> dict[str, bytes | None]:
    """Files with their bytes, folders as None."""
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def files(root: Path) -> dict[str, bytes | None]:
    return {name: data for name, data in tree(root).items() if data is not None}


def test_everything_is_applied(tmp_path: Path) -> None:
    root = plant(tmp_path / "w")
    report = apply_to_directory("apply_patch", PATCH, root)
    assert report == ("created made/deep/new.txt", "updated a.txt", "moved b.txt to moved/b.txt", "deleted c.txt")
    assert files(root) == AFTER
    assert (root / "moved/b.txt").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("fail_at", range(1, 22))
@pytest.mark.parametrize("links", [True, False])
def test_a_failure_at_any_call_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int, links: bool
) -> None:
    root = plant(tmp_path / "w")
    before = tree(root)
    count = 0
    undoing = False

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += not undoing
            if count == fail_at and not undoing:
                raise OSError(28, "No space left on device", "x")
            return real(*arguments, **named)

        return call

    real_undo = directory.Workshop._undo

    def undo(workshop: directory.Workshop) -> None:
        nonlocal undoing
        undoing = True
        real_undo(workshop)

    def no_link(*_arguments: Any, **_named: Any) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(directory.Workshop, "_undo", undo)
    monkeypatch.setattr(directory, "_link", counted(directory._link))
    monkeypatch.setattr(directory, "_write_aside", counted(directory._write_aside))
    monkeypatch.setattr(directory, "open_parent", counted(beneath.open_parent))
    monkeypatch.setattr(os, "rename", counted(os.rename))
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    try:
        apply_to_directory("apply_patch", PATCH, root)
    except InputError as said:
        assert "No space left on device. Nothing was changed." in str(said)
        assert tree(root) == before
    else:
        assert count < fail_at
        assert files(root) == AFTER


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / "a.txt").unlink(), "a.txt: cannot be updated, since it does not exist."),
        (
            lambda root: (root / "made").write_text("x"),
            "made/deep/new.txt: cannot be added, since it is beneath a file",
        ),
        (lambda root: (root / "a.txt").chmod(0o444), None if ROOT else "a.txt is read-only. Nothing was changed."),
        (lambda root: (root / "l").hardlink_to(root / "a.txt"), "a.txt has 2 hard links"),
        (lambda root: (root / "moved").symlink_to("/tmp"), "moved/b.txt: the path leads out of the workspace."),
        (lambda root: (root / "c.txt").write_bytes(b""), None),
    ],
)
def test_obstacles(tmp_path: Path, spoil: Callable[[Path], object], said: str | None) -> None:
    root = plant(tmp_path / "w")
    spoil(root)
    before = tree(root)
    if said is None:
        apply_to_directory("apply_patch", PATCH, root)
        return
    with pytest.raises((ToolFailure, InputError)) as refused:
        apply_to_directory("apply_patch", PATCH, root)
    assert said in str(refused.value)
    assert tree(root) == before


def test_a_change_in_between_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path / "w")
    real = directory.Workshop.commit

    def commit(workshop: directory.Workshop, changes: Any) -> None:
        (root / "b.txt").write_bytes(b"two\nby another\n")
        real(workshop, changes)

    monkeypatch.setattr(directory.Workshop, "commit", commit)
    with pytest.raises(InputError, match=r"b\.txt changed while the patch was read"):
        apply_to_directory("apply_patch", PATCH, root)
    assert files(root) == {**BEFORE, "b.txt": b"two\nby another\n"}


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot use the folder"):
        apply_to_directory("apply_patch", PATCH, tmp_path / "nowhere")
    with pytest.raises(InputError, match="There is no patch format 'diff'"):
        apply_to_directory("diff", PATCH, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="and the folder has 0"):
        apply_to_directory("v4a_diff", "@@\n-a\n+b", tmp_path)


def test_killed_while_writing_aside_the_folder_is_as_it_was(tmp_path: Path) -> None:
    """Only leftovers with a name of ours remain; the patched files are untouched."""
    root = plant(tmp_path / "w")
    (tmp_path / "patch").write_text(PATCH)
    program = (
        "import os, sys, signal; from pathlib import Path; from turnwright.tools.patch import directory as d\n"
        "def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
        "d.Workshop._switch = die\n"
        "d.apply_to_directory('apply_patch', Path(sys.argv[1]).read_text(), Path(sys.argv[2]))"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "patch", root], check=False)
    assert killed.returncode == -9
    assert {name: data for name, data in files(root).items() if ".turnwright-" not in name} == BEFORE
    apply_to_directory("apply_patch", PATCH, root)
    assert {name: data for name, data in files(root).items() if ".turnwright-" not in name} == AFTER


async def test_the_tool_applies_all(run: Run, workspace: Path) -> None:
    plant(workspace)
    outcome = await run("patch", text=PATCH)
    assert outcome.output == ("created made/deep/new.txt\nupdated a.txt\nmoved b.txt to moved/b.txt\ndeleted c.txt")
    assert files(workspace) == AFTER
    assert (outcome.detail["files"], outcome.detail["format"]) == (5, "apply_patch")
    assert outcome.detail["sha256_after:c.txt"] is None
    assert isinstance(outcome.detail["sha256_before:a.txt"], str)
    assert (workspace / "moved/b.txt").stat().st_mode & 0o777 == 0o755


async def test_the_tool_puts_everything_back(run: Run, workspace: Path) -> None:
    """The machine refuses a file with two names when the others are already written."""
    plant(workspace)
    (workspace / "link").hardlink_to(workspace / "b.txt")
    before = tree(workspace)
    patch = PATCH.replace("*** Move to: moved/b.txt\n", "")
    outcome = await run("patch", text=patch)
    assert outcome.outcome == "failed"
    assert outcome.output.endswith("writing would part it from its other names. Nothing was changed.")
    assert tree(workspace) == before


@pytest.mark.parametrize("cancel_at", [1, 2, 3, 4])
async def test_a_cancelled_patch_is_undone(
    machine: LocalMachine, workspace: Path, monkeypatch: pytest.MonkeyPatch, cancel_at: int
) -> None:
    """Also when the write during which the cancellation came was made."""
    plant(workspace)
    before = files(workspace)
    files_of = MachineFiles(machine)
    parsed = parse("apply_patch", PATCH)
    plan = parsed.plan({name: await files_of.load(name) for name in parsed.paths})
    real, count = machine.write, 0

    async def write(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        written = await real(*arguments, **named)
        if count == cancel_at:
            raise asyncio.CancelledError
        return written

    monkeypatch.setattr(machine, "write", write)
    if cancel_at == 4:  # there are three writes; by then all is done
        await files_of.commit(plan.changes, FilesRead())
        assert files(workspace) == AFTER
        return
    with pytest.raises(asyncio.CancelledError):
        await files_of.commit(plan.changes, FilesRead())
    assert files(workspace) == before


async def test_the_tool_knows_what_was_read(run: Run, workspace: Path) -> None:
    plant(workspace)
    add = "*** Begin Patch\n*** Add File: a.txt\n+all new\n*** End Patch"
    blind = await run("patch", text=add)
    assert blind.output == "Error: a.txt would be overwritten, and has not been read yet. Read it first, or update it."
    await run("read", path="a.txt")
    assert (await run("patch", text=add)).output == "overwrote a.txt"
    assert (await run("edit", path="a.txt", old="new", new="old")).outcome == "ok"  # still known after the patch
    update = "*** Begin Patch\n*** Update File: c.txt\n@@\n-three\n+3\n*** End Patch"
    assert (await run("patch", text=update)).outcome == "ok"
    assert "has not been read yet" in (await run("write", path="c.txt", content="x")).output


async def test_the_tool_takes_every_format(run: Run, workspace: Path) -> None:
    (workspace / "f").write_text("a\n")
    texts = [
        "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch",
        "f\n<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-c\n+d\n",
    ]
    formats = [(await run("patch", text=text)).detail["format"] for text in texts]
    assert formats == ["apply_patch", "search_replace", "udiff"]
    assert (await run("patch", text="@@\n-d\n+e", path="f")).detail["format"] == "v4a_diff"
    assert (workspace / "f").read_text() == "e\n"
    assert "none of the known patch formats" in (await run("patch", text="hello")).output
