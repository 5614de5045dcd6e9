"""No key in any file, stream or export, however it is written and whichever way it came."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import ENCODINGS, Session

from turnwright.config.secrets import secrets_of
from turnwright.schema.masking import Masker, masked
from turnwright.schema.streamed_secrets import Beginnings, StreamMasker

KEY = "sk-abcdef0123456789ABCDEFGH"
ODD = 'p@ss "w0rd"/+$x'


@pytest.mark.slow
def test_fifty_keys_in_eight_encodings_and_none_is_found(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.run()
    assert (len(session.planted.keys), len(ENCODINGS)) == (50, 8)
    places, found = session.found()
    assert found == []
    assert places > 200
    assert list((session.home / "data" / "spool").iterdir()), "nothing was too long for the journal"
    assert b"***" in session.streams["run on 0 stdout"]
    (session.home / "leak").write_bytes((session.outside / "keys.txt").read_bytes())
    assert len({each.partition(" in ")[0] for each in session.found()[1]}) == 400, "the search itself is blind"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("key", "known"), [(KEY, ()), (ODD, (ODD,))], ids=["by its shape", "by heart"])
def test_each_encoding(encoding: str, key: str, known: tuple[str, ...]) -> None:
    written = ENCODINGS[encoding](key)
    assert written not in Masker(known)(f"say {written} and go on")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.sampled_from(sorted(ENCODINGS)))
@settings(max_examples=200, deadline=None)
def test_however_it_is_cut(sizes: list[int], encoding: str) -> None:
    known = "Zq7-configured/secret+value"
    for key in (KEY, known):
        written = ENCODINGS[encoding](key)
        text = f"Before it some words, then {written} and after it more, {written}"
        stream = StreamMasker(Beginnings(Masker([known])))
        shown, at, turn = "", 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            shown += stream.feed(text[at : at + size])
            at, turn = at + size, turn + 1
        shown += stream.end()
        assert written not in shown
        assert shown.startswith("Before it some words, then ")
        assert " and after it more, " in shown


@given(st.lists(st.text(alphabet="abc sk-_.\n0Zé", max_size=9), max_size=30))
@settings(max_examples=200, deadline=None)
def test_what_is_no_secret_passes_unchanged(pieces: list[str]) -> None:
    stream = StreamMasker(Beginnings(Masker(["Zq7-configured/secret+value"])))
    shown = "".join([*map(stream.feed, pieces), stream.end()])
    assert shown == Masker()("".join(pieces)) or "***" in shown


def test_plain_words_are_not_held_back() -> None:
    stream = StreamMasker(Beginnings(Masker(["Zq7-configured/secret+value"])))
    words = ["The", " quick", " brown", " fox", " jumps", " over", "."]
    assert list(map(stream.feed, words)) == words


def test_what_of_an_environment_is_a_secret() -> None:
    environ = {
        "HOUSE_API_KEY": "0123456789abcdef0",
        "DB_PASSWORD": "swordfish-17",
        "SSH_AUTH_SOCK": "/tmp/agent.123456789",
        "GIT_AUTHOR_NAME": "John Smithson",
        "PASSWORD_POLICY": "required",
        "PATH": "/usr/bin:/bin",
        "DATABASE_URL": "postgres://me:hunter2hunter2@db/x",
    }
    assert secrets_of(environ) == ("0123456789abcdef0", "hunter2hunter2", "swordfish-17")


def test_wrapped_lines_of_base64_are_one_word() -> None:
    import base64

    lines = base64.encodebytes(b"x" * 50 + b" " + KEY.encode() + b" " + b"y" * 50).decode()
    assert Masker()(f"a\n{lines}b") == f"a\neHh***{lines.rstrip()[-3:]}\nb" or "***" in Masker()(lines)


def test_a_line_that_was_seen_alone_may_go_on_in_the_next() -> None:
    import base64

    secret = "Qq7" * 24
    lines = base64.encodebytes(f"x={secret};".encode()).decode()
    first, second, _ = lines.split("\n")
    masker = Masker([secret])
    assert masker(first) == first, "a part of the key opens nothing"
    assert masker(lines) == f"eD1***{second[-3:]}\n"


def test_words_are_remembered_only_where_nothing_was_hidden_in_them() -> None:
    masker, said = Masker(), f'{{"path":"src/a/long/path/to/a/file.py","key":"{KEY}"}}'
    shown = said.replace(KEY, masked(KEY))
    assert [masker(said), masker(said.replace(KEY, "none")), masker(said)] == [
        shown,
        said.replace(KEY, "none"),
        shown,
    ]


HIDDEN = """
import asyncio, ctypes, os, resource, sys
from pathlib import Path
from turnwright.machine.hidden import hide_this_process
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Command, run

prctl = ctypes.CDLL(None).prctl

def read_by_another(pid):
    reader = os.fork()
    if reader == 0:
        try:
            os.setuid(65534)
            Path(f"/proc/{pid}/environ").read_bytes()
            os._exit(0)
        except PermissionError:
            os._exit(1)
    return os.waitpid(reader, 0)[1] == 0

def keyholder(go, done):
    os.setuid(65534)
    prctl(4, 1, 0, 0, 0)
    os.write(done, b"1")
    os.read(go, 1)
    hide_this_process()
    os.write(done, b"2")
    os.read(go, 1)
    os._exit(0)

async def main():
    keeper = Keeper()
    work = Path(sys.argv[1])
    machine = open_local(work, keeper=keeper, env={"PATH": os.environ["PATH"]}, spool=work / "spool")
    await run(machine, Command(argv=("true",)))
    print(prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
    await machine.close()
    await keeper.close()

(go, went), (done, did) = os.pipe(), os.pipe()
if os.geteuid() == 0:
    pid = os.fork()
    if pid == 0:
        keyholder(go, did)
    os.read(done, 1)
    before = read_by_another(pid)
    os.write(went, b"x")
    os.read(done, 1)
    print(before, read_by_another(pid))
    os.write(went, b"x")
    os.waitpid(pid, 0)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such switch")
def test_no_process_of_the_user_reads_ours(tmp_path: Path) -> None:
    """As root nothing is hidden: there a process of another user is tried, by one of the same."""
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    seen = ["True False"] if os.geteuid() == 0 else []
    assert (done.stdout.splitlines(), done.stderr) == ([*seen, "0 0"], "")
