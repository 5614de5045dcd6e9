"""Conversations in one process, on a journal in memory that outlives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from turnwright.journal.memory import Memory, MemoryJournal
from turnwright.kernel.ports import Model
from turnwright.providers.script import Call, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import ConversationOpened, KnownFact, SteeringDelivered, TurnStarted, Unknown
from turnwright.schema.masking import Masker
from turnwright.session.conversation import Conversation, Session
from turnwright.testing.clock import FakeClock
from turnwright.testing.ids import CountingIds
from turnwright.testing.ports import FunctionTools, NoGuards, PlainContext, nobody_answers


def calling(name: str, **arguments: Any) -> Step:
    return Step(calls=[Call(name=name, arguments=arguments)])


class World:
    """What outlives a process: the journal, and time and ids that go on."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.clock = FakeClock(auto=True)
        self.ids = CountingIds()

    def session(self, steps: Sequence[Step] | Model, *tools: Callable[..., Any], **replaced: Any) -> Session:
        model = ScriptedModel(list(steps), clock=self.clock) if isinstance(steps, Sequence) else steps
        session = Session(
            journal=MemoryJournal(clock=self.clock, memory=self.memory),
            model=model,
            tools=FunctionTools(*tools),
            context=PlainContext(),
            guards=NoGuards,
            clock=self.clock,
            ids=self.ids,
            masker=Masker(),
            ask=nobody_answers,
            jitter=lambda: 0.0,
        )
        return msgspec.structs.replace(session, **replaced)

    def die(self) -> None:
        """The process that held leases is gone, as another would find by its pid."""
        for conversation in self.memory.conversations.values():
            conversation.holder = None

    def facts(self, conversation_id: str = "") -> list[KnownFact | Unknown]:
        found = self.memory.conversations
        (only,) = [conversation_id] if conversation_id else found
        return [each.fact for each in found[only].facts]


async def begun(session: Session) -> Conversation:
    conversation = await Conversation.create(session)
    conversation.begin_with(ConversationOpened(workspace="w", model="scripted", turnwright="test"))
    return conversation


def heard(facts: Sequence[object]) -> list[tuple[str, str]]:
    """What reached the model as the user's words, and how."""
    found = []
    for fact in facts:
        match fact:
            case TurnStarted(continued=False):
                found.append(("turn", fact.text))
            case SteeringDelivered():
                found.append(("steering", fact.text))
            case _:
                pass
    return found
