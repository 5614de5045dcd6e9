"""A workspace in which a session does its worst, and what each step leaves, made by the same commands elsewhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from host_place import Place

from turnwright.schema.settings import Settings

State = dict[str, tuple[str, int, bytes]]

WORST: tuple[str, ...] = (
    "sed -i s/one/two/ src/a.py && printf 'more\\n' >> README.md",
    "rm -rf data",
    "mv src/a.py src/b.py && mkdir -p moved/deep && mv src/pkg moved/deep/pkg",
    "chmod 755 README.md && chmod 700 src && chmod 400 notes.txt",
    "printf '\\377\\000\\001bin' > new.bin && printf 'untracked\\n' > 'a name\twith  odd ü.txt' "
    "&& printf x > $'no-utf8-\\xff'",
    "ln -s ../README.md src/link && ln -s /nowhere dangling && rm run.sh && ln -s src run.sh",
    "mkdir -p empty/deeper/deepest && rm .env && rm -f ignored.log",
    "rm notes.txt && mkdir notes.txt && printf x > notes.txt/now-a-folder",
    "rm -rf moved && printf 'a file now\\n' > moved",
    "for f in *; do rm -rf \"$f\"; done; printf 'all gone\\n' > left",
)
"""Ten steps, by shell. Nothing in them depends on time or chance."""

PERMITTED: dict[str, Any] = {"permissions": {"autonomy": 4}} if "permissions" in Settings.__struct_fields__ else {}


def fill(work: Path) -> None:
    for name, content, mode in (
        ("README.md", b"# one\n", 0o644),
        ("run.sh", b"#!/bin/sh\necho one\n", 0o755),
        ("notes.txt", b"no newline at the end", 0o600),
        (".env", b"SETTING=one\n", 0o600),
        ("ignored.log", b"ignored by git\n", 0o644),
        ("src/a.py", b"one = 1\n", 0o644),
        ("src/pkg/__init__.py", b"", 0o644),
        ("src/pkg/mod.py", b"two = 2\r\n", 0o644),
        ("data/blob.bin", bytes(range(256)) * 200, 0o640),
        ("data/sub/closed/inside.txt", b"in a folder that is closed\n", 0o444),
    ):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    (work / "data" / "empty").mkdir()
    (work / "data" / "link").symlink_to("sub/closed")
    (work / "data" / "sub" / "closed").chmod(0o750)
    (work / "src" / "pkg" / "data-link").symlink_to("../../data/blob.bin")


def make_repository(work: Path) -> None:
    """With a commit, something staged, something stashed, a second branch."""
    (work / ".gitignore").write_text("ignored.log\n.env\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    git(work, "branch", "other")
    (work / "README.md").write_text("# one, stashed\n")
    git(work, "stash", "-q")
    (work / "staged.txt").write_text("one, staged\n")
    git(work, "add", "staged.txt")


def git(work: Path, *words: str) -> str:
    told = ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "gc.auto=0")
    done = subprocess.run(
        ["git", "--no-optional-locks", *told, *words], cwd=work, capture_output=True, text=True, check=True
    )
    return done.stdout


def state_of(root: Path) -> State:
    """Every path with its kind, mode and content, a repository's own data among them."""
    found: State = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content = b""
            if stat.S_ISLNK(mode):
                kind, mode, content = "link", 0, os.fsencode(path.readlink())
            elif stat.S_ISDIR(mode):
                kind = "folder"
            else:
                kind, content = "file", path.read_bytes()
            found[str(path.relative_to(root))] = (kind, stat.S_IMODE(mode), content)
    return found


def states_after(work: Path, copy: Path, commands: Sequence[str]) -> list[State]:
    """Of a copy, before the first command and after each."""
    subprocess.run(["cp", "-a", str(work), str(copy)], check=True)
    states = [state_of(copy)]
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=copy, check=False, capture_output=True)
        states.append(state_of(copy))
    return states


class Session:
    """One turn of a scripted model, a step for each command, through the command line."""

    def __init__(self, root: Path, *, repository: bool) -> None:
        self.place = Place(root)
        self.work = self.place.work
        fill(self.work)
        if repository:
            make_repository(self.work)

    def do(self, commands: Sequence[str]) -> str:
        """The conversation's id."""
        calls: list[dict[str, Any]] = [{"calls": [{"bash": {"command": each}}]} for each in commands]
        config = self.place.root / "permitted.yaml"
        config.write_text(str(PERMITTED))
        done = self.place.run(
            *("run", "make a mess", "--model", self.place.model([*calls, {"text": "done"}])),
            *("--config", str(config), "--output", "stream-json"),
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return str(json.loads(done.stdout.partition("\n")[0])["conversation_id"])

    def told(self, *words: str) -> dict[str, Any]:
        done = self.place.told(*words, "--json")
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def refused(self, *words: str) -> str:
        done = self.place.told(*words)
        assert done.returncode == 42, done.stdout + done.stderr
        return done.stderr
