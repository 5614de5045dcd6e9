"""What the user says while the task runs, by its seed, as a client of the host's socket; and what the client was told.

A call of the task that is made again after a crash says the same again under the same ids, as a client would that never
had its answer.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from turnwright.app.host_client import HostLost, Unreachable, connected
from turnwright.journal.processes import myself
from turnwright.kernel.ports import Tools
from turnwright.schema import hosting as said
from turnwright.schema.ids import ConversationId

CARRIERS = ("R1", "S1", "W1", "R4", "E1", "S2", "P1", "S4", "E2", "T1", "S5", "R7")
"""Calls of the task during which something is said: any of them can be the one."""
POLL_S = 0.005


class Word(NamedTuple):
    kind: Literal["steer", "queue", "drop"]
    """`drop`: queued, and taken back."""
    inbox_id: str
    after: bool
    """Said when the call has been made, not before."""


def talk_of(seed: int) -> dict[str, list[Word]]:
    """By the call that carries it. Two words steer, one is dropped; every other talk leaves one in the queue."""
    chance = random.Random(seed)
    kinds: list[Literal["steer", "queue", "drop"]] = ["steer", "steer", "drop", *(["queue"] if seed % 2 else [])]  # type: ignore[list-item]
    talk: dict[str, list[Word]] = {}
    for number, kind in enumerate(kinds):
        word = Word(kind, f"m_talk{seed}word{number}", chance.random() < 0.5)
        talk.setdefault(chance.choice(CARRIERS), []).append(word)
    return talk


class Client:
    """The user, elsewhere. What was confirmed is written down before anything else is done."""

    def __init__(self, seed: int, data: Path, acknowledged: Path) -> None:
        self._seed = seed
        self._talk = talk_of(seed)
        self._data = data
        self._acknowledged = acknowledged
        self.conversation_id: ConversationId = ""

    async def say(self, word: Word) -> None:
        match word.kind:
            case "steer":
                await self._ask(said.Steer, text=f"steered {word.inbox_id}", inbox_id=word.inbox_id)
            case "queue":
                await self._ask(said.Queue, text=f"queued {word.inbox_id}", inbox_id=word.inbox_id)
            case "drop":
                await self._ask(said.Queue, text=f"dropped {word.inbox_id}", inbox_id=word.inbox_id)
                await self._ask(said.Withdraw, inbox_id=word.inbox_id)

    async def answer_all(self) -> None:
        """Until it is cancelled."""
        while True:
            with suppress(Unreachable, HostLost):
                for question in await self._questions():
                    answer = f"yes, says talk {self._seed}"
                    await self._ask(said.Answer, approval_id=question, answer=answer)
            await asyncio.sleep(POLL_S)

    def during(self, tools: Tools) -> Talkative:
        return Talkative(tools, self._talk, self.say)

    async def _questions(self) -> list[str]:
        async with connected(self._data, myself("")) as client:
            asked = await client.ask(said.Questions(id=1, conversation_id=self.conversation_id))
        assert isinstance(asked, said.Asked), asked
        return [each.approval_id for each in asked.questions]

    async def _ask(self, kind: type[said.Request], **fields: str) -> None:
        request = kind(id=1, conversation_id=self.conversation_id, **fields)
        async with connected(self._data, myself("")) as client:
            answer = await client.ask(request)
        told = {"request": request.__struct_config__.tag, **fields, "state": getattr(answer, "state", "")}
        with self._acknowledged.open("a") as file:
            file.write(json.dumps(told) + "\n")


class Talkative:
    """Tools during which the user speaks."""

    def __init__(self, tools: Tools, talk: dict[str, list[Word]], say: Callable[[Word], Awaitable[None]]) -> None:
        self._tools = tools
        self._talk = talk
        self._say = say

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    async def run(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        words = self._talk.get(context.call_id, [])
        for word in words:
            if not word.after:
                await self._say(word)
        outcome = await self._tools.run(name, arguments, context)
        for word in words:
            if word.after:
                await self._say(word)
        return outcome
