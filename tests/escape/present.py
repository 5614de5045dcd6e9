"""What attacks are told of those around them, and what those around are asked afterwards."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Present:
    """What attacks are told of those around, and the questions that are asked of them afterwards."""

    victim: int = 0
    victim_fd: int = 0
    victim_address: int = 0
    victim_size: int = 0
    key: str = ""
    sockets: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    terminal: str = ""
    setuid: str = ""
    questions: list[Callable[[], str]] = field(default_factory=list)
    stdin: int = subprocess.DEVNULL
    handed_down: tuple[int, ...] = ()
    controlling: int = -1

    def fields(self) -> dict[str, Any]:
        hidden = ("questions", "stdin", "handed_down", "controlling")
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def evidence(self) -> list[str]:
        return [said for question in self.questions if (said := question())]


@dataclass(frozen=True)
class Place:
    """Where in the arena those around have their files."""

    root: Path
    outside: Path
    workspace: Path
    home: Path
    nonce: str
    user: int | None
    secret: Callable[[str], str]
