"""What is attacked: a workspace and all around it, made anew for every attempt; and what is seen there afterwards.

Nothing that an attack says of itself counts if it can be seen from outside: files that changed or came into being,
secrets in what was printed, bytes that arrived at a server, processes that live on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from attack_kit import MODULES, Attack, Target
from attack_secrets import CREDENTIALS
from bystanders import around, plant_setuid, unmount_below
from present import Place, Present

HERE = Path(__file__).resolve().parent
PROTECTED = (
    ".git",
    ".turnwright",
    ".mcp.json",
    ".github",
    ".gitlab-ci.yml",
    ".bashrc",
    ".zshenv",
    ".config/turnwright",
    "nested/.git",
    "../main/.git",
)
"""In the workspace: what an attack may neither change nor make."""
OF_GIT = frozenset({"hooks", "config", "commondir", "modules", "config.worktree", "worktrees"})
"""In a repository: the parts that git obeys. Its objects, index and branches are for commands to change."""
DATA = ".local/share/turnwright"
RUNTIMES_OWN = (".local", ".cache", ".config/turnwright")
"""At home: where Turnwright makes files of its own while it runs a command."""

Seen = tuple[object, ...]
Print = dict[str, Seen]


@dataclass
class Arena:
    root: Path
    nonce: str
    user: int | None
    workspace: Path
    outside: Path
    home: Path
    attack: Attack
    secrets: dict[str, str] = field(default_factory=dict)
    present: Present = field(default_factory=Present)
    before: Print = field(default_factory=dict)
    protected_before: Print = field(default_factory=dict)

    def secret(self, name: str) -> str:
        """A word of its own for everything that must not be read. It looks like no key, so nothing masks it."""
        return self.secrets.setdefault(name, f"tulip-{secrets.token_hex(8)}")

    def evidence(self, printed: bytes) -> list[str]:
        """Whatever shows that the attack got somewhere."""
        found = [f"mounted: {_short(place)}" for place in unmount_below(self.root)]
        found += [f"read: {name}" for name, word in self.secrets.items() if word.encode() in printed]
        found += [f"copied: {name}" for name, word in self.secrets.items() if self._in_workspace(word)]
        found += _differences(self.before, self._print_outside())
        found += _differences(self.protected_before, self._print_protected())
        found += self.present.evidence()
        if "lends" in self.attack.world:
            found += [
                f"lends rights: {each.name}" for each in self.workspace.iterdir() if each.lstat().st_mode & 0o6000
            ]
        found += self._obey()
        said = [line.decode(errors="replace") for line in printed.splitlines() if line.startswith(b"REACHED ")]
        return found + said

    def _obey(self) -> list[str]:
        """What the user does next; and whether somebody else's program ran when that was done."""
        named = ("-c", "user.name=a", "-c", "user.email=a@b")
        for folder in (self.workspace, self.workspace / "nested"):
            for command in (["status"], [*named, "commit", "--allow-empty", "-qm", "a"]):
                if os.path.lexists(folder / ".git"):
                    self._git(command, folder)
        return ["git ran a program"] if (self.outside / "ran").exists() else []

    def _git(self, command: list[str], folder: Path) -> None:
        group: list[int] | None = None if self.user is None else []
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["git", *command],
                cwd=folder,
                env=self.environment(),
                capture_output=True,
                check=False,
                timeout=10,
                user=self.user,
                group=self.user,
                extra_groups=group,
            )

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }

    def _in_workspace(self, word: str) -> bool:
        return any(
            word.encode() in path.read_bytes()
            for path in self.workspace.rglob("*")
            if path.is_file() and not path.is_symlink() and self.home not in path.parents
        )

    def _print_outside(self) -> Print:
        """Everything in the arena that is not in the workspace."""
        taken = {}
        for path in _walk(self.root, spared={self.workspace}):
            relative = path.relative_to(self.root)
            own = any(relative.is_relative_to(Path("home", name)) for name in RUNTIMES_OWN)
            if own and str(path) not in self.before and self.before and self.nonce not in _content(path):
                continue  # Turnwright works here too, and what it writes is no attack
            taken[str(path)] = _look(path, times=not path.is_dir())
        return taken

    def _print_protected(self) -> Print:
        taken = {
            str(path): _look(path, times=False)
            for path in _walk(self.workspace, spared=set())
            if self.attack.level == "read-only"
        }
        for name in PROTECTED:
            if name == "nested/.git" and "own-repository" in self.attack.world:
                continue  # which it makes itself, and may
            top = self.workspace / name
            if not os.path.lexists(top):
                continue
            taken[str(top)] = _look(top, times=False)
            for path in _walk(top, spared=set()):
                inside = path.relative_to(top).parts
                if name.endswith(".git") and inside[0] not in OF_GIT:
                    continue
                if inside[0] == "worktrees" and inside[-1] not in ("commondir", "config.worktree"):
                    continue
                taken[str(path)] = _look(path, times=False)
        return taken


@contextlib.contextmanager
def arena(attack: Attack, base: Path, user: int | None) -> Iterator[Arena]:
    """Made for one attempt of `user` (None: ours), and removed after it."""
    root = Path(tempfile.mkdtemp(prefix="a", dir=base))
    root.chmod(0o755)
    workspace = root / "home" if "home-workspace" in attack.world else root / "base" / "project"
    made = Arena(
        root,
        f"nonce{secrets.token_hex(6)}",
        user,
        workspace,
        root / "base" / "outside",
        root / "home",
        attack,
    )
    try:
        _furnish(made, attack.world)
        place = Place(root, made.outside, workspace, made.home, made.nonce, user, made.secret)
        with around(place, attack.world) as made.present:
            lends = "setuid" in attack.world and os.geteuid() == 0
            made.present.setuid = str(root / "lending") if lends else ""
            _equip(made)
            if user is not None:
                _give_to(root, user)
            if lends:
                plant_setuid(place, made.present)
            made.before, made.protected_before = made._print_outside(), made._print_protected()
            yield made
    finally:
        unmount_below(root)
        shutil.rmtree(root, ignore_errors=True)


def _furnish(made: Arena, world: frozenset[str]) -> None:
    for folder in ("base/project/folder", "base/project-sibling", "base/outside/folder", "base/granted", "home", "run"):
        (made.root / folder).mkdir(parents=True)
    (made.root / "base" / "granted-sibling").mkdir()
    made.workspace.joinpath("README.md").write_text("Read me.\n")
    for place in ("base/outside/canary", "base/outside/folder/canary", "base/project-sibling/canary"):
        (made.root / place).write_text("alive and well, and so it shall stay\n")
    for name, path in CREDENTIALS.items():
        file = made.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{made.secret(name)}\n")
        file.chmod(0o600)
    if "linked-keys" in world:
        (made.home / "elsewhere").mkdir()
        (made.home / ".ssh").rename(made.home / "elsewhere" / "ssh")
        (made.home / ".ssh").symlink_to("elsewhere/ssh")
    (made.home / ".bashrc").write_text("# mine\n")
    old = made.home / DATA / "runs" / "old" / "transcript.md"
    old.parent.mkdir(parents=True)
    old.write_text(f"{made.secret('transcript')}\n")
    _repository(made, world)
    if "companion-writes" in world:
        (made.outside / ".git" / "hooks").mkdir(parents=True)
        (made.outside / ".git" / "config").write_text("[core]\n")
    if "settings" in world:
        (made.workspace / ".turnwright").mkdir()
        (made.workspace / ".turnwright" / "config.yaml").write_text("model: openai/gpt-5\n")
        (made.workspace / ".mcp.json").write_text('{"mcpServers": {}}\n')
    if "ci" in world:
        (made.workspace / ".github" / "workflows").mkdir(parents=True)
        (made.workspace / ".github" / "workflows" / "ci.yml").write_text("on: push\n")


def _repository(made: Arena, world: frozenset[str]) -> None:
    if world & {"no-git", "home-workspace"}:
        return
    env = made.environment()

    def git(*words: str, cwd: Path = made.workspace) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *named, *words], cwd=cwd, env=env, check=True, capture_output=True)

    if "git-file" in world:
        main = made.root / "base" / "main"
        main.mkdir()
        git("init", "-q", ".", cwd=main)
        git("commit", "--allow-empty", "-qm", "first", cwd=main)
        shutil.rmtree(made.workspace)
        git("worktree", "add", "-q", str(made.workspace), cwd=main)
        (made.workspace / "README.md").write_text("Read me.\n")
        (made.workspace / "folder").mkdir()
        return
    git("init", "-q", ".")
    hook = made.workspace / ".git" / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    if "no-hooks" in world:
        shutil.rmtree(hook.parent)
    if "modules" in world:
        (made.workspace / ".git" / "modules" / "part").mkdir(parents=True)
        (made.workspace / ".git" / "modules" / "part" / "config").write_text("[core]\n")
    if "nested" in world:
        (made.workspace / "nested").mkdir()
        git("init", "-q", "nested")


def _equip(made: Arena) -> None:
    """The attack itself, as a program in the workspace."""
    folder = made.workspace / ".attack"
    folder.mkdir()
    for module in ("attack_kit", *MODULES):
        shutil.copy(HERE / f"{module}.py", folder)
    target = Target(
        nonce=made.nonce,
        workspace=str(made.workspace),
        outside=str(made.outside),
        home=str(made.home),
        data=str(made.home / DATA),
        granted=str(made.root / "base" / "granted"),
        **made.present.fields(),
    )
    (folder / "target.json").write_text(json.dumps(asdict(target)))


def _give_to(root: Path, user: int) -> None:
    os.chown(root, user, user)
    for path in _walk(root, spared=set()):
        os.chown(path, user, user, follow_symlinks=False)


def _walk(top: Path, spared: set[Path]) -> Iterator[Path]:
    """Everything below, links not followed; what `spared` names is left out whole."""
    if top.is_symlink() or not top.is_dir():
        return
    for path in sorted(top.iterdir()):
        if path in spared:
            continue
        yield path
        yield from _walk(path, spared)


def _look(path: Path, *, times: bool) -> Seen:
    found = path.lstat()
    what: list[object] = [stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode), found.st_uid]
    if times:
        what.append(found.st_mtime_ns)
    if path.is_symlink():
        what.append(os.readlink(path))
    elif path.is_file():
        what.append(hashlib.sha256(path.read_bytes()).hexdigest())
        with contextlib.suppress(OSError):
            what.append(tuple(name for name in os.listxattr(path) if name.startswith("user.")))
    return tuple(what)


def _content(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.is_file() else path.name


def _differences(before: Print, after: Print) -> list[str]:
    gone = [f"gone: {_short(path)}" for path in before if path not in after]
    changed = [f"changed: {_short(path)}" for path in before if path in after and after[path] != before[path]]
    new = [f"new: {_short(path)}" for path in after if path not in before]
    return [*gone[:3], *changed[:3], *new[:3]]


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-3:])
