"""Commands: how they end, what they leave (nothing), and what their output costs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Captured, Command, Finished, Keep, OutsideWorkspace, Stream, run
from turnwright.machine.warden import descendants, process_table
from turnwright.schema.errors import MachineError

Running = Callable[[str], list[str]]
GoneWithin = Callable[[str, float], bool]

SLEEPERS = {
    "foreground": "exec -a {mark} sleep 100",
    "child": "(exec -a {mark} sleep 100); true",
    "background": "(exec -a {mark} sleep 100) & wait",
    "session": "setsid -w bash -c 'exec -a {mark} sleep 100' & wait",
    "session that holds the pipe": "setsid -f bash -c 'exec -a {mark} sleep 100'; sleep 100",
    "double fork": "( ( setsid bash -c 'exec -a {mark} sleep 100' & ) & ) ; sleep 100",
    "clean environment": "env -i setsid -f bash -c 'exec -a {mark} sleep 100'; sleep 100",
    "deaf": "trap '' TERM INT HUP; bash -c 'trap \"\" TERM INT HUP; exec -a {mark} sleep 100' ; sleep 100",
    "stopped": "bash -c 'exec -a {mark} sleep 100' & kill -STOP $!; wait",
    "busy": "bash -c 'exec -a {mark} yes'",
    "reader of stdin": "cat; read line; exec -a {mark} sleep 100",
    "own group": "set -m; bash -c 'exec -a {mark} sleep 100' & wait",
    "family": "for i in 1 2 3 4 5; do (setsid bash -c 'exec -a {mark} sleep 100' & sleep 100) & done; wait",
}


@pytest.fixture
def mark() -> str:
    return f"tw-{uuid.uuid4().hex}"


def bash(text: str, *, timeout_s: float | None = None, keep: Keep | None = None) -> Command:
    return Command(argv=("bash", "-c", text), timeout_s=timeout_s, keep=keep or Keep())


async def until(condition: Callable[[], object], limit_s: float = 5) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.01)


def summary(finished: Finished) -> tuple[str, int, bytes, bytes]:
    return finished.how, finished.exit_code, finished.stdout.head, finished.stderr.head


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ("exited", 0, b"", b"")),
        ("echo out; echo err >&2; exit 3", ("exited", 3, b"out\n", b"err\n")),
        ("kill -9 $$", ("exited", 137, b"", b"")),
        ("kill -TERM $$", ("exited", 143, b"", b"")),
        ("cat; read x; echo end $?", ("exited", 0, b"end 1\n", b"")),
        ("exit 255", ("exited", 255, b"", b"")),
        ("printf 'no newline'", ("exited", 0, b"no newline", b"")),
    ],
)
async def test_how_commands_end(machine: LocalMachine, text: str, expected: tuple[str, int, bytes, bytes]) -> None:
    for _ in range(2):  # under a new warden, and under a used one
        assert summary(await run(machine, Command(argv=("bash", "-c", text), merged=False))) == expected


async def test_merged_output_keeps_its_order(machine: LocalMachine) -> None:
    heard: list[tuple[bytes, Stream]] = []
    finished = await run(
        machine,
        bash("for i in 1 2 3; do echo out$i; echo err$i >&2; done"),
        lambda piece, stream: heard.append((piece, stream)),
    )
    assert finished.stdout.head == b"out1\nerr1\nout2\nerr2\nout3\nerr3\n"
    assert b"".join(piece for piece, _ in heard) == finished.stdout.head
    assert {stream for _, stream in heard} == {"stdout"}


async def test_what_a_command_finds(machine: LocalMachine, workspace: Path) -> None:
    """The workspace as working folder, a clean environment, no descriptor but three, signals as usual."""
    (workspace / "sub").mkdir()
    seen = await run(machine, Command(argv=("pwd", "-P"), cwd="sub"))
    assert seen.stdout.head.decode().strip() == str(workspace / "sub")
    command = Command(argv=("env",), env={"EXTRA": "ä=b\nc"})
    assert b"EXTRA=\xc3\xa4=b\nc\n" in (await run(machine, command)).stdout.head
    names = (await run(machine, Command(argv=("env",)))).stdout.head.decode().splitlines()
    assert sorted(name.partition("=")[0] for name in names) == ["LANG", "PATH"]
    # The fourth is the folder that ls itself reads. A shell's own would not do: bash holds pipes for a moment.
    seen = await run(machine, Command(argv=("ls", "/proc/self/fd")))
    assert seen.stdout.head.decode().split() == ["0", "1", "2", "3"]
    seen = await run(machine, Command(argv=("readlink", "/proc/self/fd/0")))
    assert seen.stdout.head.decode().split() == ["/dev/null"]
    pid, _, _, _, group, session, terminal, *_ = (
        await run(machine, Command(argv=("cat", "/proc/self/stat")))
    ).stdout.head.split()
    assert (group, session, terminal) == (pid, pid, b"0")
    status = (await run(machine, Command(argv=("cat", "/proc/self/status")))).stdout.head.decode().splitlines()
    masks = {line.split()[0]: int(line.split()[1], 16) for line in status if line.startswith(("SigBlk", "SigIgn"))}
    assert (masks["SigBlk:"], masks["SigIgn:"] & 0x7FFFFFFF) == (0, 0)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (Command(argv=("no-such-program-here",)), FileNotFoundError),
        (Command(argv=("/etc/passwd",)), PermissionError),
        (Command(argv=("true", "x" * 3_000_000)), OSError),
        (Command(argv=("true",), cwd="missing"), FileNotFoundError),
        (Command(argv=("true",), cwd=".."), OutsideWorkspace),
        (Command(argv=("true",), cwd="/"), OutsideWorkspace),
    ],
)
async def test_what_cannot_be_started(machine: LocalMachine, command: Command, error: type[OSError]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error) as refused:
        await run(machine, command)
    assert refused.value.filename in (command.argv[0], command.cwd)
    assert summary(await run(machine, bash("echo on"))) == ("exited", 0, b"on\n", b"")
    assert len(os.listdir("/proc/self/fd")) <= before + 6  # the keeper's three, a warden's, a selector's


async def test_many_at_once(machine: LocalMachine) -> None:
    results = await asyncio.gather(*(run(machine, bash(f"echo {number}; sleep 0.1")) for number in range(20)))
    assert [result.stdout.head for result in results] == [b"%d\n" % number for number in range(20)]


async def test_descriptors_do_not_leak(machine: LocalMachine) -> None:
    await run(machine, bash("true"))
    before = sorted(os.listdir("/proc/self/fd"))
    for text in ("true", "yes | head -c 1000000", "exit 1"):
        await run(machine, bash(text, keep=Keep(spill=True)))
    assert sorted(os.listdir("/proc/self/fd")) == before


# The end of the leader is the end of the command


@pytest.mark.parametrize("left", ["sleep 100 &", "setsid -f sleep 100;", "( ( setsid sleep 100 & ) & );"])
async def test_a_descendant_that_holds_the_pipe_delays_two_seconds_at_most(
    machine: LocalMachine, left: str, running: Running
) -> None:
    begun = time.monotonic()
    finished = await run(machine, bash(f"{left} echo said"))
    assert 1.9 < time.monotonic() - begun < 2.8
    assert summary(finished) == ("exited", 0, b"said\n", b"")
    assert finished.left_behind >= 1


async def test_a_silent_daemon_delays_nothing(machine: LocalMachine, mark: str, running: Running) -> None:
    begun = time.monotonic()
    text = f"setsid -f bash -c 'exec -a {mark} sleep 100' >/dev/null 2>&1; echo said; sleep 0.1"
    finished = await run(machine, bash(text))
    assert time.monotonic() - begun < 1
    assert (finished.left_behind, finished.stdout.head) == (1, b"said\n")
    assert running(mark) == []


async def test_what_descendants_write_soon_after_is_read(machine: LocalMachine) -> None:
    finished = await run(machine, bash("(sleep 0.3; echo late) & echo early"))
    assert summary(finished) == ("exited", 0, b"early\nlate\n", b"")
    assert finished.left_behind == 0
    assert finished.duration_s < 1.9, "waited for the drain's limit, though nobody was left to write"


async def test_output_is_whole_when_the_leader_is_quick(machine: LocalMachine) -> None:
    for _ in range(20):
        finished = await run(machine, bash("head -c 60000 /dev/zero", keep=Keep(head_bytes=100_000)))
        assert finished.stdout.head == bytes(60_000)


# Timeout, cancel, stop


@pytest.mark.parametrize("kind", SLEEPERS)
async def test_stop_leaves_nothing(machine: LocalMachine, kind: str, mark: str, running: Running) -> None:
    process = await machine.spawn(bash(SLEEPERS[kind].format(mark=mark)))
    if kind == "reader of stdin":
        await until(lambda: running(mark) or process.finished)
    else:
        await until(lambda: running(mark))
    begun = time.monotonic()
    finished = await process.stop()
    assert time.monotonic() - begun < 1
    assert await process.stop() is finished
    assert (finished.how, finished.unkillable) == ("stopped", False)
    assert running(mark) == []


@pytest.mark.parametrize("ending", ["timeout", "cancel"])
async def test_timeout_and_cancel_leave_nothing(
    machine: LocalMachine, ending: str, mark: str, running: Running
) -> None:
    """Every kind of command at once."""
    timeout_s = 2.0 if ending == "timeout" else None
    tasks = [
        asyncio.create_task(run(machine, bash(text.format(mark=mark), timeout_s=timeout_s)))
        for text in SLEEPERS.values()
    ]
    await until(lambda: len(running(mark)) >= len(tasks))
    begun = time.monotonic()
    if ending == "cancel":
        for task in tasks:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    took_s = time.monotonic() - begun
    if ending == "cancel":
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert took_s < 1
    else:
        assert [result.how for result in results if isinstance(result, Finished)] == ["timeout"] * len(tasks)
        assert took_s < 3
    assert running(mark) == []


async def test_a_polite_command_may_clean_up(machine: LocalMachine, workspace: Path) -> None:
    text = "trap 'echo bye > cleaned; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    finished = await run(machine, bash(text, timeout_s=0.3))
    assert (finished.how, finished.exit_code) == ("timeout", 7)
    assert (workspace / "cleaned").read_text() == "bye\n"


async def test_a_fork_bomb_of_limited_size_is_swept(machine: LocalMachine, mark: str, running: Running) -> None:
    fork = "bomb $(($1 + 1)) & bomb $(($1 + 1)) &"
    text = f"bomb() {{ (exec -a {mark} sleep 100) & [ $1 -lt 6 ] && {{ {fork} }}; wait; }}; bomb 0"
    process = await machine.spawn(bash(text))
    await until(lambda: len(running(mark)) > 20)
    begun = time.monotonic()
    await process.stop()
    assert time.monotonic() - begun < 1
    await until(lambda: not running(mark), 1)


# Those who watch may be killed too


async def test_a_killed_warden_is_an_unknown_outcome(machine: LocalMachine, mark: str, running: Running) -> None:
    text = f"setsid -f bash -c 'exec -a {mark} sleep 100'; sleep 0.2; kill -9 $PPID; exec -a {mark} sleep 100"
    finished = await run(machine, bash(text))
    assert finished.how == "lost"
    await until(lambda: not running(mark), 1)
    assert summary(await run(machine, bash("echo on"))) == ("exited", 0, b"on\n", b"")


async def test_a_warden_that_does_not_answer(machine: LocalMachine, mark: str, running: Running) -> None:
    process = await machine.spawn(bash(f"sleep 0.5; kill -STOP $PPID; exec -a {mark} sleep 100"))
    await until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(mark.encode()))
    begun = time.monotonic()
    finished = await process.stop()
    assert time.monotonic() - begun < 1
    assert (finished.how, finished.unkillable) == ("stopped", True)
    await until(lambda: not running(mark), 1)


async def test_a_warden_that_is_stopped_as_it_begins(
    machine: LocalMachine, mark: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may be quicker than its warden's report; then starting it fails, and it does not go on."""
    monkeypatch.setattr("turnwright.machine.processes.START_S", 0.5)
    for _ in range(5):
        try:
            process = await machine.spawn(bash(f"kill -STOP $PPID; exec -a {mark} sleep 100"))
        except MachineError as error:
            assert "did not answer" in str(error)
        else:
            await process.stop()
    await until(lambda: not running(mark), 2)
    assert summary(await run(machine, bash("echo on"))) == ("exited", 0, b"on\n", b"")


async def test_a_killed_keeper_costs_one_error(workspace: Path, tmp_path: Path, mark: str, running: Running) -> None:
    keeper = Keeper()
    machine = open_local(workspace, keeper=keeper, env={"PATH": os.environ["PATH"]}, spool=tmp_path / "spool")
    process = await machine.spawn(bash(f"exec -a {mark} sleep 100"))
    assert keeper._process is not None
    keeper._process.kill()
    with pytest.raises(MachineError, match="watches over commands has died"):
        await machine.spawn(bash("true"))
    assert summary(await run(machine, bash("echo on"))) == ("exited", 0, b"on\n", b"")
    assert len(running(mark)) == 1, "the warden of the first command has survived"
    await process.stop()
    assert running(mark) == []
    await machine.close()
    await keeper.close()


async def test_a_closed_machine_has_stopped_everything(machine: LocalMachine, mark: str, running: Running) -> None:
    for text in ("sleep 100", "setsid -f sleep 100; sleep 100"):
        await machine.spawn(bash(f"exec -a {mark} bash -c '{text}; true'"))
    await until(lambda: len(running(mark)) == 2)
    await machine.close()
    assert running(mark) == []
    for attempt in (machine.spawn(bash("true")), machine.read("file")):
        with pytest.raises(MachineError, match="closed"):
            await attempt


RUNTIME = """
import asyncio, os, sys
from pathlib import Path
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Command

async def main():
    workspace = Path(sys.argv[1])
    machine = open_local(workspace, keeper=Keeper(), env={"PATH": sys.argv[2]}, spool=workspace / "spool")
    for text in sys.argv[3:]:
        await machine.spawn(Command(argv=("bash", "-c", text)))
    print("ready", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["process", "group"])
def test_kill_9_of_the_runtime_leaves_nothing(
    workspace: Path, mark: str, running: Running, gone_within: GoneWithin, how: str
) -> None:
    commands = [text.format(mark=mark) for name, text in SLEEPERS.items() if name != "reader of stdin"]
    runtime = subprocess.Popen(
        [sys.executable, "-c", RUNTIME, str(workspace), os.environ["PATH"], *commands, *commands[:8]],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert runtime.stdout is not None
    assert runtime.stdout.readline() == b"ready\n"
    end = time.monotonic() + 10
    # The runtime's own command line carries the mark as well.
    while len([line for line in running(mark) if line.startswith(mark)]) < len(commands) + 8 and time.monotonic() < end:
        time.sleep(0.05)
    below = descendants({runtime.pid})
    assert len(below) > 40
    begun = time.monotonic()
    if how == "process":
        runtime.kill()
    else:
        os.killpg(runtime.pid, signal.SIGKILL)
    runtime.wait()
    runtime.stdout.close()
    gone = gone_within(mark, 1)
    took_s = time.monotonic() - begun
    assert gone, running(mark)
    while (left := below & {pid for pid, _ in process_table()}) and time.monotonic() < begun + 1:
        time.sleep(0.01)
    assert not left, f"keeper or wardens outlived the runtime: {left}"
    print(f"{len(below)} processes were gone {took_s:.2f} s after kill -9 of the {how}")


# Output


async def test_long_output_is_kept_in_a_file(machine: LocalMachine, tmp_path: Path) -> None:
    keep = Keep(head_bytes=1_000, tail_bytes=500, spill=True)
    finished = await run(machine, bash("seq 100000", keep=keep))
    whole = b"".join(b"%d\n" % number for number in range(1, 100_001))
    path = tmp_path / "spool" / "output-0001.txt"
    assert finished.stdout == Captured(
        head=whole[:1_000],
        tail=whole[-500:],
        size=len(whole),
        lines=100_000,
        spilled_to=str(path),
        spilled_bytes=len(whole),
    )
    assert path.read_bytes() == whole
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (await machine.read(str(path))).data == whole


LONG_LINE = """
import asyncio, resource, sys
from pathlib import Path
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Command, Keep, run

async def main():
    keeper = Keeper()
    machine = open_local(Path(sys.argv[1]), keeper=keeper, env={"PATH": sys.argv[2]}, spool=Path(sys.argv[1], "spool"))
    keep = Keep(spill=True)
    await run(machine, Command(argv=("bash", "-c", "seq 100000"), keep=keep))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = "head -c 2147483648 /dev/zero | tr '\\\\0' x"
    finished = await run(machine, Command(argv=("bash", "-c", text), keep=keep))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    out = finished.stdout
    print(finished.how, out.size, out.lines, out.spilled_bytes, len(out.head), len(out.tail), set(out.tail), grown)
    await machine.close()
    await keeper.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_two_gigabytes_in_one_line(workspace: Path) -> None:
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LONG_LINE, str(workspace), os.environ["PATH"]],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    *told, grown_kib = done.stdout.split()
    assert told == ["exited", "2147483648", "0", "67108864", "50000", "50000", "{120}"]
    print(f"2 GiB in {time.monotonic() - begun:.1f} s, {grown_kib} KiB more at the peak")
    assert int(grown_kib) <= 32 * 1024
