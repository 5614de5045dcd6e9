"""How late a follower in another process hears of what happens: `python -m bench.following ID` is that follower.

It prints when it was shown each fact and each piece of text; the host notes when it announces them, by the same clock.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import msgspec

from bench import ours
from turnwright.app.following import followed
from turnwright.app.host_server import reachable
from turnwright.app.reading import open_for_reading
from turnwright.app.turns import first_turn
from turnwright.config.load import load
from turnwright.schema.facts import ConversationOpened, Recorded, TurnEnded
from turnwright.schema.live import TextDelta
from turnwright.session.hosting import Host
from turnwright.session.questions import Questions


class Times(msgspec.Struct):
    """Of each fact by its number, and of each piece of text in its order."""

    facts: dict[int, float] = {}
    texts: list[float] = []

    def hear(self, event: object) -> None:
        match event:
            case Recorded(seq=seq):
                self.facts[seq] = time.perf_counter()
            case TextDelta():
                self.texts.append(time.perf_counter())
            case _:
                pass

    def late_ms(self, announced: Times) -> tuple[list[float], list[float]]:
        assert len(self.texts) == len(announced.texts), f"{len(self.texts)} pieces of {len(announced.texts)} came"
        facts = [(at - announced.facts[seq]) * 1000 for seq, at in self.facts.items()]
        texts = [(at - then) * 1000 for at, then in zip(self.texts, announced.texts, strict=True)]
        return facts, texts


async def late_ms(base_url: str, home: Path, task: str) -> tuple[list[float], list[float]]:
    """Of the second turn: the first loads what it needs."""
    announced = Times()
    async with ours.engine(base_url, home) as engine, ours.session_of(engine, home) as session:
        opened = ConversationOpened(workspace="bench", model=ours.MODEL, turnwright="bench")
        host = Host(engine.journal)
        async with reachable(host, engine.loaded.folders.data), first_turn(session, task, opened) as running:
            offered = host.add(running.conversation, Questions(None, engine.clock, wait_s=0))
            await running.unwatched()
            command = [sys.executable, "-m", "bench.following", running.conversation_id]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
                assert follower.stdout is not None
                await asyncio.to_thread(follower.stdout.readline)
                running.conversation.listen(announced.hear)
                await running.conversation.say(task)
                heard = await asyncio.to_thread(follower.stdout.readline)
            offered.close()
    return msgspec.json.decode(heard, type=Times).late_ms(announced)


async def follow(conversation_id: str) -> None:
    loaded = load(Path.cwd())
    heard = Times()
    async with (
        open_for_reading(loaded) as journal,
        aclosing(followed(loaded, journal, conversation_id, 0)) as events,
    ):
        ended = 0
        async for event in events:
            if ended:
                heard.hear(event)
            if isinstance(event, Recorded) and isinstance(event.fact, TurnEnded):
                ended += 1
                print("caught up" if ended == 1 else msgspec.json.encode(heard).decode(), flush=True)
            if ended == 2:
                return


if __name__ == "__main__":
    asyncio.run(follow(sys.argv[1]))
