"""The task that is killed: thirteen steps of reads, writes and shell commands, each effect countable afterwards.

A shell command appends its own tag to one file; each writing call has files of its own, and how often a file was put in
place is counted by the kernel's own notices. The model is scripted and expects nothing, so it takes whatever a crash
makes of a call; it repeats what it was told, so that its replies prove what reached it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never

TASK = "do the countable things"
LAST_WORDS = "all of it is done"
REPEATED = "I was told: {{last_result}}"

SHELL_CALLS = ("S1", "S2", "S3", "S4", "S5", "S6")
FILES_OF_CALL = {"W1": ("w1.txt",), "E1": ("e1.txt",), "P1": ("p1.txt", "p2.txt"), "W2": ("w2.txt",), "E2": ("e2.txt",)}
EFFECTS = (*SHELL_CALLS, *FILES_OF_CALL)
UNREPEATED = ("S5", "S6")
"""What the model does not repeat: the output of one is so large that it is stored apart, the other comes last."""

SUBAGENT = "K1"
SUBAGENT_EFFECTS = ("C1", "C2")
SUBAGENT_LAST_WORDS = "my part is done"

SEEDS = {"e1.txt": "first\nlast\n", "e2.txt": "upper\nlower\n", "p1.txt": "alpha\nbeta\n"}
PATCH = """*** Begin Patch
*** Update File: p1.txt
@@
 alpha
+P1
 beta
*** Add File: p2.txt
+P1
*** End Patch
"""


Scene: TypeAlias = Literal["", "compaction", "subagent"]
"""What else happens in the task: older messages are condensed, or a part of it is a subagent's."""
WINDOW_TOKENS = 5_000


def shell_call(effects: Path, tag: str, more: str = "") -> dict[str, Any]:
    return call(tag, "bash", command=f"echo {tag} >> {effects}{more}")


def script(effects: Path, *, asks: bool = False, scene: Scene = "", seed: int = 0) -> str:
    """As JSON, which is YAML. `asks`: somebody is there to answer. `seed` says where in the task the scene is."""
    chance = random.Random(f"{scene} {seed}")
    long = "; seq 1 {}" if scene == "compaction" else ""

    def shell(tag: str, more: str = "") -> dict[str, Any]:
        return shell_call(effects, tag, long.format(chance.randrange(700, 1_500)) or more)

    steps: list[list[dict[str, Any]]] = [
        [call("R1", "ls"), call("R2", "read", path="e1.txt")],
        [shell("S1")],
        [call("W1", "write", path="w1.txt", content="W1\n")],
        [call("R3", "read", path="w1.txt"), call("R4", "grep", pattern="upper"), call("R5", "read", path="e2.txt")],
        [call("E1", "edit", path="e1.txt", old="last", new="E1\nlast")],
        [shell("S2"), call("R6", "read", path="p1.txt")],
        [call("P1", "patch", text=PATCH)],
        [shell("S3"), shell("S4")],
        [call("W2", "write", path="w2.txt", content="W2\n"), call("E2", "edit", path="e2.txt", old="lower", new="E2")],
        [call("T1", "todo", items=[{"text": "finish", "status": "in_progress"}])],
        [shell("S5", "; sleep 0.05; seq 1 9000")],
        [shell("S6"), call("R7", "glob", pattern="*.txt")],
    ]
    if asks:
        steps.insert(9, [call("A1", "ask_user", question="Go on?")])
    if scene == "subagent":
        steps.insert(chance.randrange(1, len(steps)), [call(SUBAGENT, "task", brief="do your part")])
    told = [{"text": REPEATED, "chunk": "whole", "calls": calls} for calls in steps]
    told[0]["text"] = "I look first."
    told[-1]["text"] = "That was long."
    # Forever: a letter that a death kept from being taken back opens a turn of its own.
    whole: dict[str, Any] = {"follow": "history", "steps": [*told, {"text": LAST_WORDS, "repeat": "forever"}]}
    if scene == "compaction":
        whole |= {"window": WINDOW_TOKENS, "max_output": 500, "digest": "Countable things were done."}
    return json.dumps(whole)


def fork_point(seed: int, facts: int) -> int:
    return random.Random(seed).randrange(2, facts + 1)


def subagent_script(effects: Path) -> str:
    """What the subagent does of the task."""
    steps = [[shell_call(effects, "C1")], [call("C3", "read", path="e1.txt")], [shell_call(effects, "C2")]]
    told = [{"text": REPEATED, "chunk": "whole", "calls": calls} for calls in steps]
    return json.dumps({"follow": "history", "steps": [*told, {"text": SUBAGENT_LAST_WORDS}]})


def settings(scene: Scene, seed: int, subagent: Path) -> dict[str, Any]:
    """The user's configuration."""
    match scene:
        case "compaction":
            keep_tokens = random.Random(seed).randrange(200, 1_200)
            return {"loop": {"compaction": {"keep_tokens": keep_tokens, "apart_steps": 0}}}
        case "subagent":
            return {"subagents": {"model": f"scripted/{subagent}"}}
        case "":
            return {}
        case _:
            assert_never(scene)


def call(identity: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": identity, "name": name, "arguments": arguments}


IN_MOVED_TO, IN_CREATE, IN_Q_OVERFLOW = 0x80, 0x100, 0x4000


class Landings:
    """How often each file of a folder was put in place, as the kernel saw it, whoever did it."""

    def __init__(self, folder: Path, before: Mapping[str, int] = MappingProxyType({})) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        watch: int = libc.inotify_add_watch(self._fd, os.fsencode(folder), IN_MOVED_TO | IN_CREATE)
        assert watch >= 0, os.strerror(ctypes.get_errno())
        self._seen = Counter(before)

    def counted(self) -> Counter[str]:
        """So far."""
        head = struct.Struct("iIII")
        while notices := self._read():
            at = 0
            while at < len(notices):
                _, mask, _, length = head.unpack_from(notices, at)
                assert not mask & IN_Q_OVERFLOW, "notices were lost, so nothing is counted"
                name = notices[at + head.size : at + head.size + length].rstrip(b"\0").decode()
                self._seen[name] += 1
                at += head.size + length
        return self._seen

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, 65_536)
        except BlockingIOError:
            return b""


def effect_counts(effects: Path, landings: Counter[str]) -> dict[str, int]:
    """How often each call had its effect. A call with several files counts as its most frequent."""
    tags = Counter(effects.read_text().split()) if effects.exists() else Counter[str]()
    return {tag: tags[tag] for tag in (*SHELL_CALLS, *SUBAGENT_EFFECTS)} | {
        call_id: max(landings[name] for name in names) for call_id, names in FILES_OF_CALL.items()
    }
