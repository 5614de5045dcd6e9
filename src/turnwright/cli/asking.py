"""Questions of a running turn, put to whoever sits at the terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from turnwright.cli.terminal import Terminal
from turnwright.kernel.ports import Question
from turnwright.views.text import Span, line, safe

LINE_BYTES_MAX = 65_536


class Asker:
    """`kernel.ports.Ask`. One question at a time; the end of the input is no answer, which is a denial."""

    def __init__(self, err: Terminal, stdin_fd: int) -> None:
        self._err = err
        err.asks = True
        self._fd = stdin_fd
        self._turn = asyncio.Lock()  # two tools may ask at once

    async def __call__(self, question: Question) -> str | None:
        async with self._turn:
            self._err.held = True
            try:
                return await self._asked(question.text, question.choices)
            finally:
                self._err.held = False

    async def _asked(self, question: str, choices: Sequence[str]) -> str | None:
        self._err.lines(line(Span(each, "heading")) for each in safe(question).split("\n"))
        self._err.lines(line(f"  {number}  {safe(choice)}") for number, choice in enumerate(choices, 1))
        while True:
            self._err.write("? ")
            self._err.flush()
            said = await self._line()
            if said is None:
                self._err.write("\n")
                self._err.flush()
                return None
            if not choices:
                return said
            if (chosen := chosen_of(said, choices)) is not None:
                return chosen
            self._err.lines([line(Span(f"Answer with 1 to {len(choices)}, or one of the words.", "warn"))])

    async def _line(self) -> str | None:
        """A terminal hands over whole lines. Waiting on the descriptor, not in a thread, lets a cancelled turn go."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        raw = os.read(self._fd, LINE_BYTES_MAX)
        return raw.decode("utf-8", "replace").rstrip("\r\n") if raw else None


def chosen_of(said: str, choices: Sequence[str]) -> str | None:
    """A choice by its number, its words, or the beginning that only it has."""
    said = said.strip()
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1]
    begins = [choice for choice in choices if said and choice.lower().startswith(said.lower())]
    exact = [choice for choice in begins if choice.lower() == said.lower()]
    return (exact or begins)[0] if len(exact or begins) == 1 else None
