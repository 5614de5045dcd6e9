"""Attempts: one attack, by one user, behind one wall; and what became of it."""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import os
import re
import signal
import subprocess
import sysconfig
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arena import Arena, arena
from attack_kit import Attack
from bystanders import place_python, still_beating, survivors

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "explanation" / "sandbox.md"
PATIENCE_S = 15.0
PROMPT_S = 10.0
"""A command that is over must not be held by what it left behind for longer than this."""

COMPANIONS = 6
WRITING = "for name in canary new .git/config .git/hooks/new; do echo mine > nested/$name; done"
"""What a command does that works in the workspace while another plays with the names there."""

Wall = Literal["bare", "none", "kernel-lite", "namespaces"]
"""`bare`: no Turnwright at all. An attack that does not succeed there shows nothing by failing elsewhere."""
TIERS: tuple[Wall, ...] = ("namespaces", "kernel-lite", "none")

Became = Literal["success", "stopped", "refused", "impossible", "broken"]


@dataclass(frozen=True)
class Attempt:
    attack: str
    wall: Wall
    became: Became
    said: str
    """The evidence of a success; else what stopped it."""
    took_s: float = 0.0


def attempt(attack: Attack, wall: Wall, base: Path, user: int | None) -> Attempt:
    with arena(attack, base, user) as made:
        command = [*_wall(attack, wall, made), "--", *_program(attack, made)]
        if wall == "bare":
            command = _program(attack, made)
        began = time.monotonic()
        printed, code = _run(attack, command, made)
        took_s = time.monotonic() - began
        lives_on = _outlived(made) if wall != "bare" or attack.name.startswith("processes/") else []
        evidence = [*made.evidence(printed), *lives_on]
        if attack.name.startswith("processes/") and took_s > PROMPT_S:
            evidence.append(f"held the command for {took_s:.1f} s")
        _end_all(made)
        return _judged(attack, wall, made.nonce, printed, code, evidence, took_s)


def _judged(
    attack: Attack, wall: Wall, nonce: str, printed: bytes, code: int, evidence: Sequence[str], took_s: float
) -> Attempt:
    text = printed.decode(errors="replace")
    began = f"BEGAN {nonce}" in text
    stopped = "; ".join(re.findall(r"^STOPPED (.*)$", text, re.MULTILINE)) or f"exit code {code}"
    missing = re.findall(r"^UNSUPPORTED (.*)$", text, re.MULTILINE)

    def became(what: Became, said: str) -> Attempt:
        return Attempt(attack.name, wall, what, said, took_s)

    if evidence:
        return became("success", "; ".join(evidence))
    if not began:
        return became("refused" if wall != "bare" and "Traceback" not in text else "broken", text.strip()[-600:])
    if "Traceback" in text:
        return became("broken", text.strip()[-600:])
    if missing:
        return became("impossible", missing[0])
    return became("stopped", stopped)


def _program(attack: Attack, made: Arena) -> list[str]:
    kit = made.workspace / ".attack" / "attack_kit.py"
    return [place_python(made.user), "-I", "-S", "-B", str(kit), attack.name]


def _wall(attack: Attack, wall: Wall, made: Arena) -> list[str]:
    level = "off" if wall == "none" else attack.level
    options = [option.format(granted=made.root / "base" / "granted") for option in attack.options]
    named = ["--level", level, "--tier", wall, *options, "--cwd", str(made.workspace)]
    return [place_python(made.user), "-m", "turnwright", "sandbox", "run", *named]


def _run(attack: Attack, command: list[str], made: Arena) -> tuple[bytes, int]:
    """Everything it printed, and its exit code. What holds the output open for too long is not waited for."""
    present = made.present
    env = {**made.environment(), "ESCAPE_WORD": made.secret("our environment")}
    env |= {"PYTHONPATH": f"{ROOT / 'src'}:{sysconfig.get_path('platlib')}", "PYTHONDONTWRITEBYTECODE": "1"}
    names = {"SSH_AUTH_SOCK": "agent", "DBUS_SESSION_BUS_ADDRESS": "bus", "DOCKER_HOST": "docker"}
    env |= {variable: present.sockets[name] for variable, name in names.items() if name in present.sockets}

    def own_terminal() -> None:
        fcntl.ioctl(present.controlling, termios.TIOCSCTTY, 0)

    owner: dict[str, Any] = {} if made.user is None else {"user": made.user, "group": made.user, "extra_groups": []}
    process = subprocess.Popen(
        command,
        cwd=made.workspace,
        env=env,
        stdin=present.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=present.handed_down,
        start_new_session=True,
        preexec_fn=own_terminal if present.controlling >= 0 else None,
        **owner,
    )
    try:
        for companion in _companions(attack, command):
            time.sleep(0.1)
            subprocess.run(companion, cwd=made.workspace, env=env, capture_output=True, check=False, **owner)
        if attack.name.startswith("together/"):
            (made.workspace / "go").touch()
        printed, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as late:
        process.kill()
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        printed = (late.output or b"") + (process.stdout.read() or b"")
        process.stdout.close()
        process.wait()
    return printed, process.returncode


def _companions(attack: Attack, command: list[str]) -> list[list[str]]:
    """What else is run, behind the same wall, while the attack runs."""
    wall = command[: command.index("--") + 1] if "--" in command else []
    if "companion-sleeps" in attack.world:
        return [[*wall, "sleep", "0.2"]]
    if "companion-writes" in attack.world:
        return [[*wall, "sh", "-c", WRITING]] * COMPANIONS
    return []


def _outlived(made: Arena) -> list[str]:
    time.sleep(0.05)
    left = survivors(made.nonce)
    if left and still_beating(made.workspace):
        return [f"{len(left)} processes live on"]
    return ["a process lives on"] if still_beating(made.workspace) else []


def _end_all(made: Arena) -> None:
    """The bomb ends where this file is missing; all others carry the nonce."""
    with contextlib.suppress(OSError):
        (made.workspace / "README.md").unlink()
    for pid in survivors(made.nonce):
        if pid != made.present.victim:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def intended() -> dict[str, frozenset[str]]:
    """From the document: a line of a list that begins with the name of an attack, below a heading with the tier's."""
    found: dict[str, set[str]] = {}
    tier = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if DOCUMENT.exists() else []:
        if line.startswith("#"):
            tier = next((wall for wall in TIERS if f"`{wall}`" in line), "")
        elif tier and (named := re.match(r"- `([a-z]+/[a-z0-9*-]+)`", line)):
            found.setdefault(tier, set()).add(named[1])
    return {tier: frozenset(names) for tier, names in found.items()}


def is_listed(name: str, listed: frozenset[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in listed)
