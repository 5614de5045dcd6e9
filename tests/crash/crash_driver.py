"""Runs or carries on the task by the public modules of `app`, with moments of `turnwright.testing.crash` around the
journal, the tools and the model. Not a test: it is started, and dies, as a process of its own.

With a SEED it hosts the conversation, and the user speaks through its socket (`crash_talk`).

With a SCENE something else happens in the task (`crash_task`), and SEED says where.

usage: crash_driver.py run|resume ROOT [NUMBER | NAME NTH [SEED [SCENE]]]
       crash_driver.py fork ROOT NAME NTH SEED
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
from crash_place import Place
from crash_talk import Client
from crash_task import TASK, fork_point

from turnwright.app.engine import open_engine
from turnwright.app.forking import fork
from turnwright.app.host_server import reachable
from turnwright.app.running import Running
from turnwright.app.turns import carried_on, first_turn, opening
from turnwright.cli.output import StreamFace, show
from turnwright.config.load import Flag, load
from turnwright.kernel.ports import Continue, Judgement, Question, Tools, Warn
from turnwright.schema.facts import ConversationOpened, Fact, ToolEnded, Unknown
from turnwright.schema.ids import ConversationId
from turnwright.schema.messages import RuntimeMessage
from turnwright.session.conversation import Conversation, Session
from turnwright.session.hosting import Host, Hosted
from turnwright.session.questions import Questions
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


class WrappedHost(Host):
    """With a moment before and after each request."""

    def __init__(self, journal: Any, plan: CrashPlan) -> None:
        super().__init__(journal)
        self._plan = plan

    def find(self, conversation_id: ConversationId) -> Hosted | None:
        found = super().find(conversation_id)
        return None if found is None else crashing(found, self._plan, "answer")


class Acquiring:
    """A journal with a moment before and after each lease, whatever the conversation is called."""

    def __init__(self, journal: Any, plan: CrashPlan) -> None:
        self._journal = journal
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def acquire(self, *args: Any, **kwargs: Any) -> Any:
        self._plan.reached("before acquire")
        lease = await self._journal.acquire(*args, **kwargs)
        self._plan.reached("after acquire")
        return lease


async def talked(what: str, place: Place, plan: CrashPlan, seed: int) -> int:
    """The user is elsewhere, and knows the conversation by its host."""
    model = Flag(path=("model",), value=f"scripted/{place.script}", flag="--model")
    loaded = load(place.workspace, flags=[model])
    async with open_engine(loaded, label="driver") as engine:
        data = loaded.folders.data
        client = Client(seed, data, place.acknowledged)
        questions = Questions(None, engine.clock, wait_s=60.0)
        host = WrappedHost(engine.journal, plan)
        async with (
            engine.session(place.workspace, ask=crashing(questions, plan, "ask")) as given,
            reachable(host, data),
        ):
            session = msgspec.structs.replace(
                given, journal=crashing(given.journal, plan, "append"), tools=client.during(given.tools)
            )
            async with await _turn(what, session, opening(loaded.settings, place.workspace)) as running:
                client.conversation_id = running.conversation_id
                offered = host.add(running.conversation, questions)
                answering = asyncio.create_task(client.answer_all())
                shown = await show(running, StreamFace(sys.stdout.buffer))
                answering.cancel()
                offered.close()
    (place.root / "moments.json").write_text(json.dumps(plan.passed))
    return shown.exit_code


async def main(what: str, place: Place, plan: CrashPlan) -> int:
    model = Flag(path=("model",), value=f"scripted/{place.script}", flag="--model")
    loaded = load(place.workspace, flags=[model])
    async with open_engine(loaded, label="driver") as engine, AsyncExitStack() as stack:
        # For subagents too: their sessions are made by the engine.
        engine.journal = crashing(engine.journal, plan, "append")
        given = await stack.enter_async_context(engine.session(place.workspace, ask=_yes, guards=Watchful))
        talkative = Talkative(given.tools)
        session = msgspec.structs.replace(
            given,
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
    (newest,) = [each for each in await session.journal.conversations() if each.sent_by is None]  # type: ignore[attr-defined]
    return carried_on(session, newest.id)


async def forked(place: Place, plan: CrashPlan, seed: int) -> int:
    """Forks what a death has left, at some point, and says so once it is on record."""
    loaded = load(place.workspace)
    async with open_engine(loaded, label="driver") as engine:
        journal: Any = Acquiring(crashing(engine.journal, plan, "append"), plan)
        (only,) = await journal.conversations()
        seq = fork_point(seed, only.facts)
        made = await fork(journal, only.id, seq, loaded=loaded, model_named=False, assigned={})
    sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
    sys.stdout.buffer.flush()
    plan.reached("after fork told")
    (place.root / "moments.json").write_text(json.dumps(plan.passed))
    return 0


def _plan(words: Sequence[str]) -> CrashPlan:
    match words:
        case []:
            return CrashPlan()
        case [number]:
            return CrashPlan(int(number), how="kill")
        case [name, nth, *_]:
            return CrashPlan(name, nth=int(nth), how="kill")
        case _:
            raise SystemExit(__doc__)


def _run(what: str, root: str, *words: str) -> int:
    place, plan = Place(Path(root)), _plan(words)
    seed = int(words[2]) if len(words) > 2 else 0
    if what == "fork":
        return asyncio.run(forked(place, plan, seed))
    scene = words[3] if len(words) > 3 else ""
    return asyncio.run(talked(what, place, plan, seed) if seed and not scene else main(what, place, plan))


if __name__ == "__main__":
    sys.exit(_run(*sys.argv[1:]))
