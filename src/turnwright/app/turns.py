"""A turn ready to run: the conversation is opened or loaded under its lease, and given back when the block is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from turnwright import __version__
from turnwright.app.far_machine import HERE
from turnwright.app.running import Running
from turnwright.kernel.loop import TurnOutcome
from turnwright.schema.facts import ConversationOpened
from turnwright.schema.ids import ConversationId
from turnwright.schema.settings import ENDPOINT, Provider, Settings
from turnwright.session.conversation import Conversation, Session


def opening(
    settings: Settings, workspace: Path, model: str = "", *, assigned: Mapping[str, str] = MappingProxyType({})
) -> ConversationOpened:
    """The first fact of a conversation: what it takes to find its model again."""
    endpoint = settings.providers.named.get(ENDPOINT, Provider())
    return ConversationOpened(
        workspace=str(workspace),
        model=model or settings.model,
        turnwright=__version__,
        base_url=endpoint.base_url,
        dialect=endpoint.dialect,
        api_key_env=endpoint.api_key_env,
        settings=dict(assigned),
        ssh="" if settings.machine.ssh == HERE else settings.machine.ssh,
    )


Start = Callable[[], Awaitable[TurnOutcome]]


@asynccontextmanager
async def first_turn(session: Session, task: str, opened: ConversationOpened) -> AsyncIterator[Running]:
    """A new conversation. Its first fact is recorded when somebody watches, so that nothing of it is missed."""
    conversation = await Conversation.create(session)

    conversation.begin_with(opened)
    async with _closing(conversation, lambda: conversation.say(task)) as running:
        yield running


@asynccontextmanager
async def next_turn(session: Session, conversation_id: ConversationId, task: str) -> AsyncIterator[Running]:
    """The user says something more."""
    conversation = await Conversation.load(session, conversation_id)
    async with _closing(conversation, lambda: conversation.say(task)) as running:
        yield running


@asynccontextmanager
async def carried_on(session: Session, conversation_id: ConversationId) -> AsyncIterator[Running]:
    """From the last durable step (R2)."""
    conversation = await Conversation.load(session, conversation_id)
    async with _closing(conversation, conversation.carry_on) as running:
        yield running


@asynccontextmanager
async def taken_up(session: Session, conversation_id: ConversationId) -> AsyncIterator[Conversation]:
    """Between two turns, for what is no turn."""
    conversation = await Conversation.load(session, conversation_id)
    try:
        yield conversation
    finally:
        await conversation.close()


@asynccontextmanager
async def _closing(conversation: Conversation, start: Start) -> AsyncIterator[Running]:
    try:
        yield Running(conversation, start)
    finally:
        await conversation.close()
