"""The host itself: alone with its conversation, away from its terminal, and nobody's but its user's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from host_place import TURNWRIGHT, Follower, Place, lives, wait_for

from turnwright.app.host_socket import PATH_BYTES_MAX, SHORT, socket_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as on Linux"),
]

NOBODY = 65534


def test_it_is_away_from_whoever_started_it(place: Place) -> None:
    """Its own session, no terminal, none of our descriptors, its words in its log."""
    ours, kept = os.pipe()
    begun = subprocess.run(
        [*TURNWRIGHT, "run", "do it", "--detach", "--model", place.model([{"calls": [place.waits]}, {"text": "ok"}])],
        cwd=place.work,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        pass_fds=[kept],
    )
    os.close(kept)
    conversation_id = begun.stdout.strip()
    (pid,) = [int(word.rstrip(".\n")) for word in begun.stderr.split() if word.rstrip(".\n").isdecimal()]
    place.hosts.append(pid)
    assert os.getsid(pid) not in (os.getsid(0), pid), "it can never get a terminal"
    assert os.read(ours, 1) == b"", "nobody holds what was handed to the command"
    os.close(ours)
    assert [Path(f"/proc/{pid}/fd/{each}").readlink().name for each in (0, 1, 2)] == ["null", "host.log", "host.log"]
    assert f"turnwright follow {conversation_id}" in begun.stderr
    place.open_gate()
    wait_for(lambda: not lives(pid))
    (log,) = (place.home / "data" / "runs").glob("*/host.log")
    assert log.parent.name.endswith(conversation_id)
    assert log.stat().st_mode & 0o777 == 0o600
    assert "stop · 2 steps" in log.read_text()
    assert list((place.home / "data" / "runs").glob("host-*")) == []


WRONG = [
    (("run", "do it", "--model", "scripted//nowhere.yaml"), 42),
    (("run", "do it", "--model", "openai/gpt-5"), 41),
    (("run", "do it", "--resume", "c_00000000000000000000"), 42),
    (("resume", "last"), 2),
]


@pytest.mark.parametrize(("words", "code"), WRONG, ids=lambda each: each[-1] if isinstance(each, tuple) else None)
def test_what_cannot_begin_is_said_at_once(place: Place, words: tuple[str, ...], code: int) -> None:
    """With the code that it has in the foreground, and nothing is left behind."""
    place.environ.pop("OPENAI_API_KEY", None)
    done = place.run(*words, "--detach")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr
    assert list((place.home / "data").glob("runs/*")) == []


def test_a_second_host_is_refused(place: Place) -> None:
    host = place.host([{"calls": [place.waits]}, {"text": "ok"}])
    model = place.model([{"text": "no"}])
    for words in (("resume", host.id, "--continue"), ("run", "more", "--resume", host.id, "--model", model)):
        for refused in (place.told(*words), place.run(*words, "--detach")):
            assert refused.returncode == 1
            assert f"is being written by process {host.pid}" in refused.stderr
    assert len(place.sockets) == 1


def test_sockets_of_the_dead_are_taken_away(place: Place) -> None:
    """Those of the living, and what is no socket of ours, stay."""
    first = place.host([{"calls": [place.waits]}, {"text": "ok"}])
    folder = place.home / "data" / "hosts"
    os.kill(first.pid, signal.SIGKILL)
    first.ended()
    (folder / "readme.txt").write_text("mine")
    (dead,) = [name for name in place.sockets if name.endswith(".sock")]
    living = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    living.bind(str(folder / "0000000001-living.sock"))
    living.listen()
    second = place.host([{"calls": [place.waits]}, {"text": "ok"}])
    assert dead not in place.sockets
    assert {"0000000001-living.sock", "readme.txt"} < set(place.sockets)
    assert folder.stat().st_mode & 0o777 == 0o700
    (mine,) = [name for name in place.sockets if name.startswith(f"{second.pid:010d}")]
    assert (folder / mine).stat().st_mode & 0o777 == 0o600
    living.close()


def test_a_home_that_is_too_deep_has_its_sockets_in_tmp(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path / ("deep" * 20))
    folder = socket_folder(place.home / "data")
    assert folder.is_relative_to(SHORT)
    assert len(os.fsencode(folder)) < PATH_BYTES_MAX
    host = place.host([{"calls": [place.waits]}, {"text": "ok"}])
    assert len(list(folder.glob("*.sock"))) == 1
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent)] == [0o700, 0o700]
    follower = Follower(place, host.id, "--until-idle")
    wait_for(lambda: follower.has("tool.started"))
    assert place.run("steer", host.id, "hello").returncode == 0
    place.open_gate()
    assert follower.process.wait(20) == 0
    assert follower.has("tool-output"), "live, so by the socket"
    host.ended()
    assert not folder.exists()


def test_a_turn_without_a_socket_runs_all_the_same(place: Place) -> None:
    """Its journal says why nobody can reach it. In the background there would be no way to it, so that is refused."""
    (place.home / "data").mkdir(mode=0o700)
    (place.home / "data" / "hosts").write_text("in the way")
    model = place.model([{"text": "ok"}])
    away = place.run("run", "do it", "--model", model, "--detach")
    assert (away.returncode, away.stdout) == (1, "")
    assert "cannot be made" in away.stderr
    here = place.run("run", "do it", "--model", model, "--output", "stream-json")
    lines = [json.loads(line) for line in here.stdout.splitlines()]
    assert (here.returncode, lines[-1]["reason"]) == (0, "stop")
    assert [line["code"] for line in lines if line["type"] == "note"] == ["not-hosted"]


def said_to(path: Path, line: bytes) -> list[dict[str, object]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        client.connect(str(path))
        with suppress(BrokenPipeError):
            client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        found = []
        with suppress(ConnectionResetError):  # it would not read all that was sent
            found += [json.loads(each) for each in iter(client.makefile("rb").readline, b"")]
        return found


NONSENSE = [
    b"\n",
    b"\xff\n",
    b"GET / HTTP/1.1\r\n",
    b'{"type":"stop"}\n',
    b'{"type":"reboot","id":1,"conversation_id":"c"}\n',
]


def test_nonsense_changes_nothing(place: Place) -> None:
    host = place.host([{"calls": [place.waits]}, {"text": "ok"}])
    (name,) = place.sockets
    path = place.home / "data" / "hosts" / name
    for line in NONSENSE:
        hello, refused = said_to(path, line)
        assert (hello["type"], hello["protocol"], refused["type"], refused["id"]) == ("hello", 1, "refused", 0)
    said_to(path, b"x" * (9 * 1024 * 1024))
    _, gone = said_to(path, b'{"type":"stop","id":1,"conversation_id":"c_other"}\n')
    assert gone == {"type": "gone", "conversation_id": "c_other"}
    place.open_gate()
    host.ended()
    assert place.facts(host.id)[-1]["reason"] == "stop"


AS_NOBODY = """
import os, sys
from turnwright.cli.main import main
home, quick, slow = sys.argv[1:]
os.environ["TURNWRIGHT_HOME"] = os.path.join(home, "root")
assert main(["run", "load what it takes", "--model", quick, "--output", "json"]) == 0
os.environ["TURNWRIGHT_HOME"] = os.path.join(home, "nobody")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(main(["run", "do it", "--model", slow, "--output", "json"]))
"""
CONNECTS = "import os, socket, sys; os.setuid(65534); socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_is_turned_away() -> None:
    """Root is let in by every folder's mode, and then by nobody: it is not the owner."""
    with tempfile.TemporaryDirectory(prefix="tw-nobody-") as folder:
        root = Path(folder)
        work = root / "work"
        work.mkdir()
        for path in (root, work):
            os.chown(path, NOBODY, NOBODY)
        root.chmod(0o755)  # a sandbox takes root's rights away, and it could not pass
        models = []
        for name, step in (("quick", {"text": "ok"}), ("slow", {"text": "x" * 600, "chunk": 1, "gap_s": 0.1})):
            (root / name).write_text(json.dumps({"steps": [step]}))
            models.append(f"scripted/{root / name}")
        with subprocess.Popen([sys.executable, "-c", AS_NOBODY, folder, *models], cwd=work) as process:
            wait_for(lambda: list((root / "nobody").glob("data/hosts/*.sock")) or process.poll() is not None)
            (path,) = (root / "nobody").glob("data/hosts/*.sock")
            assert path.stat().st_uid == NOBODY
            wait_for(lambda: said_to(path, b""))
            (refused,) = said_to(path, b"")
            assert refused["message"] == f"This turn belongs to user {NOBODY}, and you are user 0."
            process.terminate()
        mine = root / "mine.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(mine))
            mine.chmod(0o600)
            listener.listen()
            command = [sys.executable, "-c", CONNECTS, str(mine)]
            other = subprocess.run(command, capture_output=True, text=True, check=False)
            assert "PermissionError" in other.stderr, "the mode alone keeps others out"
