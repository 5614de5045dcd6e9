"""What commands in a sandbox can do and what they cannot, by real commands. The attacks proper are in tests/escape."""

from __future__ import annotations

import asyncio
import os
import re
import struct
from pathlib import Path

import msgspec
import pytest
from sandbox_ground import Ground

from turnwright.machine.port import Command, run
from turnwright.machine.sandbox.filter import filter_for
from turnwright.machine.sandbox.macos import profile
from turnwright.machine.sandbox.means import Found, Means, Tried
from turnwright.machine.sandbox.reach import Reach
from turnwright.machine.sandbox.remembered import key_of, recall, remember
from turnwright.machine.sandbox.stubs import Stubs
from turnwright.machine.sandbox.syscalls import PROCESSORS
from turnwright.schema.errors import SandboxError
from turnwright.schema.sandbox import Confinement


async def test_it_works_in_the_workspace_and_nowhere_else(ground: Ground) -> None:
    assert await ground.shell("echo made > made && mkdir -p a/b && mv made a/b/ && cat a/b/made") == (0, "made\n")
    code, _ = await ground.shell(f"echo x > {ground.root}/outside/x")
    assert (code != 0, list((ground.root / "outside").iterdir())) == (True, [])
    assert (await ground.shell(f"cat {ground.root}/home/.ssh/key"))[0] != 0
    assert await ground.shell("echo $HOME $TURNWRIGHT_HOME; cat /proc/self/status | grep CapEff") == (
        0,
        "\nCapEff:\t0000000000000000\n",
    )


async def test_read_only_changes_nothing_but_temporary_files(ground: Ground) -> None:
    (ground.workspace / "file").write_text("as it was")
    code, said = await ground.shell("cat file; echo x > file", level="read-only")
    assert (code != 0, said.startswith("as it was"), (ground.workspace / "file").read_text()) == (
        True,
        True,
        "as it was",
    )
    assert await ground.shell('echo x > "$TMPDIR/x" && cat "$TMPDIR/x"', level="read-only") == (0, "x\n")


async def test_a_program_that_is_not_there_is_named(ground: Ground) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await ground.run("no-such-program")
    assert missing.value.filename == "no-such-program"


async def test_exit_codes_and_signals(ground: Ground) -> None:
    assert (await ground.shell("exit 7"))[0] == 7
    assert (await ground.shell("kill -9 $$"))[0] == 137


async def test_what_it_leaves_running_is_counted_and_killed(ground: Ground) -> None:
    finished = await run(ground.machine(), Command(argv=("sh", "-c", "setsid sleep 77.25 >/dev/null 2>&1 & echo on")))
    assert (finished.stdout.head, finished.left_behind) == (b"on\n", 1)
    await asyncio.sleep(0.2)
    assert not any("77.25" in line for line in _running())


async def test_a_timeout_gives_a_chance_to_end_and_kills_the_rest(ground: Ground) -> None:
    script = "trap 'echo asked; exit 0' TERM; sleep 76.5 & setsid sleep 76.5 & wait"
    finished = await run(ground.machine(), Command(argv=("bash", "-c", script), timeout_s=1))
    assert (finished.how, finished.stdout.head) == ("timeout", b"asked\n")
    assert not any("76.5" in line for line in _running())


async def test_protected_files_do_not_come_into_being(namespaces: Ground) -> None:
    (namespaces.workspace / ".git" / "hooks").mkdir(parents=True)
    (namespaces.workspace / ".git" / "config").write_text("[core]\n")
    for name in (".git/hooks/pre-commit", ".git/commondir", ".git/modules/x", ".turnwright/config.yaml", ".mcp.json"):
        assert (await namespaces.shell(f"mkdir -p $(dirname {name}); echo x > {name}"))[0] != 0, name
    for line in ("mv .git other", "echo x >> .git/config", "rm -f .git/config", "mkdir -p .github/workflows/x"):
        assert (await namespaces.shell(line))[0] != 0, line
    assert await namespaces.shell("echo x > .git/index.lock && mv .git/index.lock .git/index && echo done") == (
        0,
        "done\n",
    )
    assert sorted(os.listdir(namespaces.workspace)) == [".git"]
    assert sorted(os.listdir(namespaces.workspace / ".git")) == ["config", "hooks", "index"]
    assert (namespaces.workspace / ".git" / "config").read_text() == "[core]\n"


async def test_a_link_in_the_place_of_a_protected_file_stops_everything(namespaces: Ground) -> None:
    (namespaces.workspace / ".mcp.json").symlink_to("elsewhere")
    with pytest.raises(SandboxError, match=r"\.mcp\.json is a symbolic link"):
        await namespaces.shell("true")


async def test_two_side_by_side_stand_on_the_same_folders(namespaces: Ground) -> None:
    long = await namespaces.machine().spawn(Command(argv=("sh", "-c", "sleep 1; echo x > .mcp.json; ls -d .mcp.json")))
    assert (await namespaces.shell("true"))[0] == 0
    assert (namespaces.workspace / ".mcp.json").is_dir(), "the other one still stands on it"
    finished = await long.wait()
    assert (finished.exit_code, b".mcp.json" in finished.stdout.head) == (0, True)
    assert os.listdir(namespaces.workspace) == []


def test_what_a_killed_process_left_is_taken_away(tmp_path: Path) -> None:
    left = Stubs(tmp_path / "own", "/w").hold([str(tmp_path / "one"), str(tmp_path / "commondir")])
    os.close(left.fd)  # as the kernel does
    (tmp_path / "two").mkdir()
    Stubs(tmp_path / "own", "/w").clear()
    assert sorted(os.listdir(tmp_path)) == ["own", "two"]


def test_a_folder_that_somebody_used_stays(tmp_path: Path) -> None:
    hold = Stubs(tmp_path / "own", "/w").hold([str(tmp_path / "one")])
    (tmp_path / "one" / "theirs").touch()
    hold.release()
    assert (tmp_path / "one" / "theirs").exists()


def test_the_numbers_of_system_calls_are_those_of_the_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    defined = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    numbers = PROCESSORS["x86_64"].numbers
    assert {name: number for name, number in numbers.items() if name in defined} == {
        name: int(defined[name]) for name in numbers if name in defined
    }


@pytest.mark.parametrize("machine", PROCESSORS)
def test_every_jump_of_the_filter_lands_in_it(machine: str) -> None:
    program = filter_for(machine, "internet")
    assert program is not None and filter_for("pdp11", "internet") is None
    rows = list(struct.iter_unpack("HBBI", program))
    ahead = [at + 1 + max(yes, no) for at, (code, yes, no, _) in enumerate(rows) if code & 7 == 5]
    assert max(ahead) < len(rows) and rows[-1][:3] == (6, 0, 0)


def test_what_was_tried_is_kept_until_something_changes(tmp_path: Path) -> None:
    found = Found(
        tried=(Tried(tier="namespaces", why="no"), Tried(tier="kernel-lite", means=Means(tier="kernel-lite")))
    )
    remember(tmp_path, "as it is", found)
    assert recall(tmp_path, "as it is", Found) == found
    assert recall(tmp_path, "something else", Found) is None
    (tmp_path / "tried.json").write_bytes(b"{cut")
    assert recall(tmp_path, "as it is", Found) is None
    assert key_of("/bin/sh") != key_of(None)


def test_it_says_what_holds() -> None:
    lite = Confinement(level="workspace-write", tier="kernel-lite", network="off", missing=("one", "two"))
    assert str(lite) == "workspace-write by kernel-lite, network off; lacks: one; two"
    assert (lite.whole, Confinement(level="read-only", tier="namespaces").whole) == (False, True)
    assert str(Confinement()) == "off: commands run with your own rights"


def test_the_profile_for_macos() -> None:
    reach = Reach(
        level="workspace-write",
        network="off",
        workspace='/Users/u/my "work"',
        home="/Users/u",
        temporary="/private/tmp/tw",
        cache="/Users/u/Library/tw",
        hidden=("/Users/u/data",),
        visible=("/Users/u/data/spool",),
    )
    lines = profile(reach).splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    allowed = '(subpath "/Users/u/my \\"work\\"") (subpath "/private/tmp/tw") (subpath "/Users/u/Library/tw")'
    assert f"(allow file-write* {allowed})" in lines
    guarded = next(line for line in lines if line.startswith("(deny file-write* (subpath"))
    assert guarded.startswith('(deny file-write* (subpath "/Users/u/my \\"work\\"/.turnwright")')
    git = r"(hooks|config|config\.worktree|commondir|modules)(/|$)"
    assert rf"""(deny file-write* (regex #"^/Users/u/my\ .work./(.*/)?\.git/{git}"))""" in lines
    hidden = next(line for line in lines if line.startswith("(deny file-read* file-write*"))
    assert '(subpath "/Users/u/.ssh")' in hidden and hidden.endswith('(subpath "/Users/u/data"))')
    assert lines[-2:] == [
        '(allow file-read* (subpath "/Users/u/data/spool"))',
        '(allow network* (local ip "localhost:*"))',
    ], "what is said last decides"
    read_only = profile(msgspec.structs.replace(reach, level="read-only", network="open"))
    assert "/Users/u/my" not in read_only and read_only.endswith("(allow network*)\n")


def _running() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return found
