"""Files of a local machine: what a tool may open, and what a write leaves behind."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from turnwright.machine import beneath
from turnwright.machine.files import Files, Folder
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import (
    Absent,
    FileChanged,
    FileKey,
    ForbiddenFile,
    NotRegular,
    OutsideWorkspace,
    SharedFile,
    ThroughLink,
    Unchanged,
)
from turnwright.schema.errors import InputError


@pytest.fixture(params=["kernel", "walk"], autouse=True)
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs with `openat2` and with the walk by hand: they must agree."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_opener", lambda: beneath.walk_beneath)
    elif beneath._opener() is beneath.walk_beneath:
        pytest.skip("no openat2 here")
    return str(request.param)


@pytest.fixture(params=["pinned", "compared"])
def pinning(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With O_PATH, and as on a platform without it."""
    if request.param == "compared":
        monkeypatch.setattr("turnwright.machine.files.pin", lambda folder_fd, name: None)
    return str(request.param)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


OUTSIDE = [
    "../secret",
    "sub/../../secret",
    "/etc/passwd",
    "../workspace-sibling/file",
    "link-out",
    "link-absolute",
    "folder-out/secret",
    "sub/link-up/../../secret",
]


@pytest.fixture
def trapped(workspace: Path, tmp_path: Path) -> Path:
    """A workspace full of ways out, and the secret they lead to."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "workspace-sibling").mkdir()
    (tmp_path / "workspace-sibling" / "file").write_text("secret")
    (workspace / "sub").mkdir()
    (workspace / "link-out").symlink_to("../secret")
    (workspace / "link-absolute").symlink_to(tmp_path / "secret")
    (workspace / "folder-out").symlink_to("..")
    (workspace / "sub" / "link-up").symlink_to("..")
    return tmp_path / "secret"


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leads_out(machine: LocalMachine, trapped: Path, path: str) -> None:
    for attempt in (machine.read(path), machine.stat(path), machine.write(path, b"x")):
        with pytest.raises(OutsideWorkspace) as refused:
            await attempt
        assert refused.value.filename == path
    assert trapped.read_text() == "secret"


@pytest.mark.skipif(sys.platform != "linux", reason="whether a name is a link's is asked of /proc")
async def test_what_others_obey_is_reached_by_its_own_name(machine: LocalMachine, workspace: Path) -> None:
    """A yes to a write of `notes` is no yes to one of what it leads to."""
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("obeyed")
    (workspace / "folder").mkdir()
    (workspace / ".ssh").mkdir()
    (workspace / ".ssh" / "key").write_text("secret")
    for name, target in (("notes", ".git/config"), ("hooks", ".git/hooks"), ("up", ".git"), ("mine", ".ssh")):
        (workspace / name).symlink_to(target)
    for path in ("notes", "hooks/new", "hooks/deep/new", "up/config", "folder/../up/hooks/new", "mine/key"):
        with pytest.raises(ThroughLink):
            await machine.write(path, b"")
    for path in ("notes", "up/config"):
        assert (await machine.read(path)).data == b"obeyed"
    with pytest.raises(ThroughLink):
        await machine.read("mine/key")
    with pytest.raises(ThroughLink):
        await machine.remove("up/config")
    assert sorted(path.name for path in workspace.rglob("*")) == sorted(
        [".git", "hooks", "config", ".ssh", "key", "notes", "hooks", "up", "mine", "folder"]
    )
    await machine.write(".git/config", b"by its name")
    await machine.remove("notes")
    assert (await machine.read(".ssh/key")).data == b"secret"


async def test_removing_a_link_out_removes_the_link(machine: LocalMachine, trapped: Path, workspace: Path) -> None:
    await machine.remove("link-out")
    assert not (workspace / "link-out").is_symlink()
    assert trapped.read_text() == "secret"
    with pytest.raises(OutsideWorkspace):
        await machine.remove("folder-out/secret")
    with pytest.raises(OutsideWorkspace):
        await machine.list_directory("folder-out")


@pytest.mark.parametrize(
    "path", ["a.txt", "./a.txt", "sub/../a.txt", "sub//deep/../../a.txt", "link", "sub/chain", "sub/up/a.txt"]
)
async def test_paths_that_stay_inside_work(machine: LocalMachine, workspace: Path, path: str) -> None:
    (workspace / "sub" / "deep").mkdir(parents=True)
    (workspace / "a.txt").write_text("hello")
    (workspace / "link").symlink_to("a.txt")
    (workspace / "sub" / "chain").symlink_to("deep/../../link")
    (workspace / "sub" / "up").symlink_to("..")
    content = await machine.read(path)
    assert (content.data, content.sha256) == (b"hello", sha256(b"hello"))
    assert (await machine.read(str(workspace / path))).data == b"hello"
    assert (await machine.stat(path)).size == 5

    await machine.write(path, b"changed")
    assert (workspace / "a.txt").read_bytes() == b"changed"
    assert (workspace / "link").is_symlink() and (workspace / "sub" / "chain").is_symlink()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", FileNotFoundError),
        ("missing/deep", FileNotFoundError),
        ("", FileNotFoundError),
        ("a\0b", OSError),
        ("\ud800", OSError),
        ("loop", OSError),
        ("dangling", FileNotFoundError),
        ("file/below", NotADirectoryError),
        ("folder", IsADirectoryError),
        (".", IsADirectoryError),
        ("x" * 300, OSError),
    ],
)
async def test_what_cannot_be_read(machine: LocalMachine, workspace: Path, path: str, error: type[OSError]) -> None:
    (workspace / "loop").symlink_to("loop")
    (workspace / "dangling").symlink_to("nowhere")
    (workspace / "file").write_text("")
    (workspace / "folder").mkdir()
    with pytest.raises(error):
        await machine.read(path)


async def test_a_piece_of_a_file(machine: LocalMachine, workspace: Path) -> None:
    (workspace / "long").write_bytes(bytes(range(256)) * 10_000)
    piece = await machine.read("long", start=255, bytes_max=3)
    assert (piece.data, piece.sha256, piece.stat.size) == (b"\xff\x00\x01", None, 2_560_000)
    assert (await machine.read("long")).sha256 == sha256((workspace / "long").read_bytes())
    assert (await machine.read("long", start=9_999_999)).data == b""


async def test_nothing_but_regular_files(
    machine: LocalMachine, workspace: Path, pinning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(workspace)  # a socket's path must be short
        listener.bind("socket")
    expected = {"pipe": "named pipe", "socket": "socket"}
    if os.geteuid() == 0:
        os.mknod(workspace / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        expected["device"] = "character device"
    for name, kind in expected.items():
        async with asyncio.timeout(2):
            with pytest.raises(NotRegular, match=kind):
                await machine.read(name)
            with pytest.raises(NotRegular, match=kind):
                await machine.write(name, b"x")
    assert {entry.name: entry.kind for entry in await machine.list_directory()} == dict.fromkeys(expected, "other")


async def test_the_runtimes_own_files_are_closed(workspace: Path, tmp_path: Path, pinning: str) -> None:
    journal = workspace / "journal.db"
    journal.write_text("facts")
    os.link(journal, workspace / "alias")
    (workspace / "link").symlink_to("journal.db")
    keys: set[FileKey] = set()
    machine = open_local(
        workspace, keeper=Keeper(), env={}, spool=tmp_path / "spool", forbidden=lambda: frozenset(keys)
    )
    assert (await machine.read("alias")).data == b"facts"
    keys.add((journal.stat().st_dev, journal.stat().st_ino))
    for name in ("journal.db", "alias", "link"):
        for attempt in (machine.read(name), machine.write(name, b"x")):
            with pytest.raises(ForbiddenFile):
                await attempt
    with pytest.raises(ForbiddenFile):
        await machine.remove("alias")
    assert journal.read_text() == "facts"
    await machine.close()


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="no strace")
def test_a_forbidden_file_is_never_opened_for_reading(workspace: Path, tmp_path: Path) -> None:
    """One open and close by us would drop SQLite's locks (J1a): seen in the system calls, not believed."""
    journal = workspace / "journal.db"
    journal.write_text("facts")
    program = f"""
import os, sys
from pathlib import Path
from turnwright.machine.files import Files, Folder
from turnwright.machine.port import ForbiddenFile
root = {str(workspace)!r}
status = os.stat(root + "/journal.db")
files = Files((Folder(fd=os.open(root, os.O_RDONLY), names=(root,), writable=True),),
              lambda: frozenset({{(status.st_dev, status.st_ino)}}))
for attempt in (lambda: files.read("journal.db", 0, 10), lambda: files.write("journal.db", b"x", None, None)):
    try:
        attempt()
    except ForbiddenFile:
        print("refused")
"""
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(trace), sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["refused", "refused"], done.stderr
    opens = [line for line in trace.read_text().splitlines() if "journal.db" in line]
    assert opens and all("O_PATH" in line for line in opens), opens


# Writing


async def test_a_new_file_and_its_folders(machine: LocalMachine, workspace: Path) -> None:
    previous = os.umask(0o022)
    try:
        written = await machine.write("a/b/new.txt", b"text")
    finally:
        os.umask(previous)
    assert (workspace / "a/b/new.txt").read_bytes() == b"text"
    assert (written.sha256, written.sha256_before, written.folders_made) == (sha256(b"text"), None, ("a", "a/b"))
    assert (written.stat.mode, written.stat.size) == (0o644, 4)
    assert [entry.name for entry in await machine.list_directory("a/b")] == ["new.txt"]
    await machine.remove("a/b/new.txt")
    await machine.remove("a/b")
    await machine.remove("a")
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o4755])
async def test_a_file_keeps_its_mode(machine: LocalMachine, workspace: Path, mode: int) -> None:
    (workspace / "file").write_text("old")
    (workspace / "file").chmod(mode)
    written = await machine.write("file", b"new")
    assert stat.S_IMODE((workspace / "file").stat().st_mode) == mode
    assert written.sha256_before == sha256(b"old")
    await machine.write("file", b"newer", mode=0o700)
    assert stat.S_IMODE((workspace / "file").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_root_leaves_a_file_its_owner(machine: LocalMachine, workspace: Path) -> None:
    (workspace / "file").write_text("old")
    os.chown(workspace / "file", 65534, 65534)
    await machine.write("file", b"new")
    assert ((workspace / "file").stat().st_uid, (workspace / "file").stat().st_gid) == (65534, 65534)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what is read-only")
async def test_a_read_only_file_stays_as_it_is(machine: LocalMachine, workspace: Path) -> None:
    (workspace / "file").write_text("old")
    (workspace / "file").chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        await machine.write("file", b"new")
    assert (workspace / "file").read_text() == "old"


async def test_a_file_with_two_names_is_not_parted(machine: LocalMachine, workspace: Path) -> None:
    (workspace / "one").write_text("old")
    os.link(workspace / "one", workspace / "two")
    with pytest.raises(SharedFile, match="2 hard links"):
        await machine.write("one", b"new")
    assert (await machine.read("one")).data == b"old"


async def test_write_only_if(machine: LocalMachine, workspace: Path) -> None:
    await machine.write("file", b"first", only_if=Absent())
    with pytest.raises(FileExistsError):
        await machine.write("file", b"second", only_if=Absent())
    with pytest.raises(FileChanged):
        await machine.write("file", b"second", only_if=Unchanged(sha256(b"other")))
    with pytest.raises(FileChanged):
        await machine.write("missing", b"second", only_if=Unchanged(sha256(b"other")))
    await machine.write("file", b"second", only_if=Unchanged(sha256(b"first")))
    assert [(path.name, path.read_bytes()) for path in workspace.iterdir()] == [("file", b"second")]


async def test_two_writers_of_a_new_file_cannot_both_win(machine: LocalMachine) -> None:
    results = await asyncio.gather(
        *(machine.write("file", bytes([number]), only_if=Absent()) for number in range(20)), return_exceptions=True
    )
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert sum(isinstance(result, FileExistsError) for result in results) == 19


async def test_readers_see_the_old_file_or_the_new(machine: LocalMachine, workspace: Path) -> None:
    versions = {bytes([letter]) * 200_000 for letter in b"abcd"}
    await machine.write("file", min(versions))

    async def write() -> None:
        for data in sorted(versions) * 5:
            await machine.write("file", data)

    writing = asyncio.create_task(write())
    while not writing.done():
        assert (await machine.read("file")).data in versions
    await writing
    assert [path.name for path in workspace.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_write_that_fails_leaves_the_old_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "file").write_text("old")
    files = Files((Folder(fd=os.open(workspace, os.O_RDONLY), names=(str(workspace),), writable=True),), frozenset)

    def full(fd: int, data: bytes) -> None:
        with open("/dev/full", "wb", 0) as device:
            device.write(data)

    monkeypatch.setattr("turnwright.machine.files._write_all", full)
    with pytest.raises(OSError, match="No space left") as failed:
        files.write("file", b"new", None, None)
    assert failed.value.filename == "file"
    assert [(path.name, path.read_text()) for path in workspace.iterdir()] == [("file", "old")]


@pytest.mark.parametrize("path", [".", "folder/..", "folder/."])
async def test_a_folder_is_no_file(machine: LocalMachine, workspace: Path, path: str) -> None:
    (workspace / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        await machine.write(path, b"x")
    with pytest.raises(OSError, match="give its name"):
        await machine.remove(path)
    assert (await machine.stat(path)).kind == "directory"


async def test_a_full_folder_is_not_removed(machine: LocalMachine, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder" / "file").write_text("")
    with pytest.raises(OSError, match="not empty"):
        await machine.remove("folder")


async def test_output_folder_can_be_read_but_not_written(machine: LocalMachine, tmp_path: Path) -> None:
    kept = tmp_path / "spool" / "output.txt"
    kept.write_text("long")
    assert (await machine.read(str(kept))).data == b"long"
    assert [entry.name for entry in await machine.list_directory(str(tmp_path / "spool"))] == ["output.txt"]
    for attempt in (machine.write(str(kept), b"x"), machine.remove(str(kept))):
        with pytest.raises(OutsideWorkspace):
            await attempt
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700


async def test_a_workspace_known_by_a_link(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "alias").symlink_to("workspace")
    (workspace / "file").write_text("x")
    machine = open_local(tmp_path / "alias", keeper=Keeper(), env={}, spool=tmp_path / "spool")
    assert machine.workspace == str(workspace)
    for name in (tmp_path / "alias" / "file", workspace / "file"):
        assert (await machine.read(str(name))).data == b"x"
    await machine.close()


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_workspace_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=name):
        open_local(tmp_path / name, keeper=Keeper(), env={}, spool=tmp_path / "spool")


async def test_a_cancelled_write_does_not_land_later(machine: LocalMachine, workspace: Path) -> None:
    task = asyncio.create_task(machine.write("file", b"x" * 5_000_000))
    await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    before = sorted(workspace.iterdir())
    await asyncio.sleep(0.2)
    assert sorted(workspace.iterdir()) == before


# Races

SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
os.symlink("../outside", "moved")
os.symlink("inside", "folder")
print("ready", flush=True)
while True:
    for target in ("inside", "../outside"):
        os.symlink(target, "next"); os.replace("next", "folder")          # an ancestor, changed at once
    os.symlink("../outside/file", "next"); os.replace("next", "file")     # the file itself
    open("next", "w").write("inside"); os.replace("next", "file")
    libc.renameat2(-100, b"moving", -100, b"moved", 2)                    # a real folder exchanged with a link
"""


@pytest.fixture
async def swapping(workspace: Path, tmp_path: Path) -> AsyncIterator[Path]:
    for folder in (workspace / "inside", workspace / "moving", tmp_path / "outside"):
        folder.mkdir()
        (folder / "file").write_text("outside" if folder.name == "outside" else "inside")
    process = subprocess.Popen([sys.executable, "-c", SWAPPER, str(workspace)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield tmp_path / "outside"
    alive = process.poll() is None
    process.kill()
    process.wait()
    process.stdout.close()
    assert alive, "the swapper died"


async def test_links_swapped_while_we_open_lead_nowhere(workspace: Path, swapping: Path) -> None:
    files = Files((Folder(fd=os.open(workspace, os.O_RDONLY), names=(str(workspace),), writable=True),), frozenset)
    seen = {"inside": 0, "refused": 0}
    end = time.monotonic() + 20
    while min(seen.values()) < 2_000 and time.monotonic() < end:
        for path in ("folder/file", "file", "moving/file", "folder/../file"):
            try:
                data = files.read(path, 0, 100).data
            except OSError:
                seen["refused"] += 1
                continue
            assert data in (b"inside", b"")
            seen["inside"] += 1
    assert min(seen.values()) >= 2_000, f"the race was not run: {seen}"


async def test_links_swapped_while_we_write_lead_nowhere(workspace: Path, swapping: Path) -> None:
    files = Files((Folder(fd=os.open(workspace, os.O_RDONLY), names=(str(workspace),), writable=True),), frozenset)
    outcomes = {"written": 0, "refused": 0}
    end = time.monotonic() + 20
    while min(outcomes.values()) < 100 and time.monotonic() < end:
        for path in ("folder/new", "file", "moving/new/deep"):
            try:
                files.write(path, b"inside", None, None)
                outcomes["written"] += 1
            except OSError:
                outcomes["refused"] += 1
    assert {path.name: path.read_text() for path in swapping.iterdir()} == {"file": "outside"}
    assert min(outcomes.values()) >= 100, f"the race was not run: {outcomes}"
