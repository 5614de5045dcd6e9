"""Runs or carries on the task by the public modules of `app`, with moments of `turnwright.testing.crash` around the
journal, the tools and the model. Not a test: it is started, and dies, as a process of its own.

usage: crash_driver.py run|resume ROOT [NUMBER | NAME NTH]
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
from crash_place import Place
from crash_task import TASK

from turnwright.app.engine import open_engine
from turnwright.app.running import Running
from turnwright.app.turns import carried_on, first_turn, opening
from turnwright.cli.output import StreamFace, show
from turnwright.config.load import Flag, load
from turnwright.kernel.ports import Continue, Judgement, Question, Tools, Warn
from turnwright.schema.facts import ConversationOpened, Fact, ToolEnded, Unknown
from turnwright.schema.messages import RuntimeMessage
from turnwright.session.conversation import Conversation, Session
from turnwright.testing.crash import CrashPlan, crashing


class Watchful:
    """A guard with something to say about every grep."""

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        if isinstance(fact, ToolEnded) and fact.name == "grep":
            said = RuntimeMessage(code="watchful", text="One search is enough.")
            return [Warn(guard="watchful", why="grep was used", said=said)]
        return [Continue()]

    def watch(self) -> None:
        return None

    def recall(self, fact: Fact | Unknown) -> None:
        del fact


class Talkative:
    """Tools during one of which the user speaks: one word to this turn, and another that is taken back."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.conversation: Conversation | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    async def run(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        if name == "todo" and self.conversation is not None:
            await self.conversation.steer("and be quick about it")
            await self.conversation.withdraw(await self.conversation.queue("never mind"))
        return await self._tools.run(name, arguments, context)


async def main(what: str, place: Place, plan: CrashPlan) -> int:
    model = Flag(path=("model",), value=f"scripted/{place.script}", flag="--model")
    loaded = load(place.workspace, flags=[model])
    async with (
        open_engine(loaded, label="driver") as engine,
        engine.session(place.workspace, ask=_yes, guards=Watchful) as given,
    ):
        talkative = Talkative(given.tools)
        session = msgspec.structs.replace(
            given,
            journal=crashing(given.journal, plan, "append"),
            tools=crashing(talkative, plan, "run"),
            model=crashing(given.model, plan, "attempt"),
            ask=crashing(given.ask, plan, "ask"),
        )
        async with await _turn(what, session, opening(loaded.settings, place.workspace)) as running:
            talkative.conversation = running.conversation
            shown = await show(running, StreamFace(sys.stdout.buffer))
    (place.root / "moments.json").write_text(json.dumps(plan.passed))
    return shown.exit_code


async def _yes(question: Question) -> str | None:
    del question
    return "yes"


async def _turn(what: str, session: Session, opened: ConversationOpened) -> AbstractAsyncContextManager[Running]:
    if what == "run":
        return first_turn(session, TASK, opened)
    (newest,) = await session.journal.conversations()  # type: ignore[attr-defined]
    return carried_on(session, newest.id)


def _plan(words: Sequence[str]) -> CrashPlan:
    match words:
        case []:
            return CrashPlan()
        case [number]:
            return CrashPlan(int(number), how="kill")
        case [name, nth]:
            return CrashPlan(name, nth=int(nth), how="kill")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], Place(Path(sys.argv[2])), _plan(sys.argv[3:]))))
