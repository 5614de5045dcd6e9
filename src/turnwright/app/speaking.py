"""Say something to a conversation, wherever it runs: to the process that runs it, else into its inbox, where it waits.

Each function may be tried again after whatever broke: nothing is then done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.host_client import HostClient, HostLost, Unreachable, connected
from turnwright.app.ids import SystemIds
from turnwright.app.journals import opened_journal
from turnwright.app.keys import keys_of
from turnwright.app.reading import facts_of, holder_of, named_conversation, no_conversation, open_for_reading
from turnwright.app.secrets import masker_of
from turnwright.config.environment import process_environment
from turnwright.config.load import Loaded
from turnwright.journal.records import Holder
from turnwright.kernel.ports import Question
from turnwright.schema import hosting as said
from turnwright.schema.errors import InputError, JournalHeld
from turnwright.schema.facts import (
    ApprovalAnswered,
    InboxAdmitted,
    InboxWithdrawn,
    SteeringDelivered,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import ConversationId
from turnwright.session.inbox import LetterKind, Mailbox

TRIES = 20
TRY_AGAIN_S = 0.1
"""A process that begins or ends holds its conversation for a moment without a socket."""

Told = TypeVar("Told")


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """`running`: a turn is under way that may take the letter. Otherwise it waits on disk for the next one."""

    conversation_id: ConversationId
    inbox_id: str
    running: bool


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    inbox_id: str
    state: said.LetterState


async def speak(loaded: Loaded, name: str, text: str, kind: LetterKind) -> Spoken:
    """On record when it returns."""
    conversation_id = await conversation_named(loaded, name)
    inbox_id = SystemIds(SystemClock().wall_ms).new("inbox")
    request = {"steer": said.Steer, "queue": said.Queue}[kind](
        id=1, conversation_id=conversation_id, text=text, inbox_id=inbox_id
    )

    async def to_host(client: HostClient) -> Spoken:
        answer = await client.ask(request)
        assert isinstance(answer, said.Heard), answer
        return Spoken(conversation_id=conversation_id, inbox_id=inbox_id, running=answer.running)

    async def to_disk() -> Spoken:
        async with _mailbox(loaded, conversation_id, kind) as mailbox:
            await mailbox.admit(inbox_id, text, kind)
        return Spoken(conversation_id=conversation_id, inbox_id=inbox_id, running=False)

    return await _wherever_it_runs(loaded, conversation_id, to_host, to_disk)


async def withdraw(loaded: Loaded, name: str, inbox_id: str) -> Withdrawn:
    """Raises InputError where there never was such a letter."""
    conversation_id = await conversation_named(loaded, name)

    async def to_host(client: HostClient) -> said.LetterState:
        answer = await client.ask(said.Withdraw(id=1, conversation_id=conversation_id, inbox_id=inbox_id))
        assert isinstance(answer, said.Letter), answer
        return answer.state

    async def to_disk() -> said.LetterState:
        async with _mailbox(loaded, conversation_id, "withdraw") as mailbox:
            return await mailbox.withdraw(inbox_id)

    state = await _wherever_it_runs(loaded, conversation_id, to_host, to_disk)
    if state == "unknown":
        raise InputError(
            f"There is no letter {inbox_id} in conversation {conversation_id}.",
            remedy=f"`turnwright queue {conversation_id}` lists those that wait.",
        )
    return Withdrawn(conversation_id=conversation_id, inbox_id=inbox_id, state=state)


async def waiting_letters(loaded: Loaded, name: str) -> list[InboxAdmitted]:
    """What the user has said and no turn has taken yet, oldest first."""
    async with open_for_reading(loaded) as journal:
        conversation_id = await named_conversation(journal, name)
        facts = [each.fact for each in await facts_of(journal, conversation_id)]
    gone: set[str] = set()
    for fact in facts:
        match fact:
            case InboxWithdrawn(inbox_id=inbox_id):
                gone.add(inbox_id)
            case SteeringDelivered(inbox_ids=inbox_ids) | TurnStarted(inbox_ids=inbox_ids):
                gone.update(inbox_ids)
            case _:
                pass
    return [fact for fact in facts if isinstance(fact, InboxAdmitted) and fact.inbox_id not in gone]


async def stop(loaded: Loaded, name: str) -> tuple[ConversationId, str]:
    """Why the turn ended, once that is on record; empty where the process that has it runs no turn just now."""
    conversation_id = await conversation_named(loaded, name)

    async def to_host(client: HostClient) -> str:
        answer = await client.ask(said.Stop(id=1, conversation_id=conversation_id))
        assert isinstance(answer, said.Stopped), answer
        return answer.reason

    async def to_disk() -> str:
        async with open_for_reading(loaded) as journal:
            facts = [each.fact for each in await facts_of(journal, conversation_id)]
        # What is admitted, named or noted between turns comes after the end of the last one.
        turns = [fact for fact in facts if isinstance(fact, TurnStarted | TurnEnded)]
        if not turns or isinstance(turns[-1], TurnEnded):
            raise InputError(f"Conversation {conversation_id} is not running: its last turn has ended.")
        raise InputError(
            f"Conversation {conversation_id} is not running: its turn was interrupted.",
            remedy=f"Carry on with: turnwright resume {conversation_id} --continue",
        )

    return conversation_id, await _wherever_it_runs(loaded, conversation_id, to_host, to_disk)


async def open_questions(loaded: Loaded, name: str) -> tuple[ConversationId, tuple[Question, ...]]:
    """What waits for the user's word."""
    conversation_id = await conversation_named(loaded, name)

    async def to_host(client: HostClient) -> tuple[Question, ...]:
        answer = await client.ask(said.Questions(id=1, conversation_id=conversation_id))
        assert isinstance(answer, said.Asked), answer
        return answer.questions

    return conversation_id, await _wherever_it_runs(
        loaded, conversation_id, to_host, lambda: _nobody_asks(conversation_id)
    )


async def answer(loaded: Loaded, question: Question, text: str) -> None:
    """On record when it returns."""
    conversation_id = question.conversation_id

    async def to_host(client: HostClient) -> None:
        await client.ask(
            said.Answer(id=1, conversation_id=conversation_id, approval_id=question.approval_id, answer=text)
        )

    async def to_disk() -> None:
        """Perhaps it died just after it had written the answer down."""
        async with open_for_reading(loaded) as journal:
            facts = [each.fact for each in await journal.tail(conversation_id, 100)]
        if not any(isinstance(each, ApprovalAnswered) and each.approval_id == question.approval_id for each in facts):
            await _nobody_asks(conversation_id)

    await _wherever_it_runs(loaded, conversation_id, to_host, to_disk)


async def conversation_named(loaded: Loaded, name: str) -> ConversationId:
    async with open_for_reading(loaded) as journal:
        conversation_id = await named_conversation(journal, name)
        if not await journal.tail(conversation_id, 1):
            raise no_conversation(conversation_id)
        return conversation_id


async def _nobody_asks(conversation_id: ConversationId) -> tuple[Question, ...]:
    raise InputError(
        f"No process runs conversation {conversation_id}, so nothing is asked.",
        remedy=f"What was left open is asked again by: turnwright resume {conversation_id} --continue",
    )


async def _wherever_it_runs(
    loaded: Loaded,
    conversation_id: ConversationId,
    to_host: Callable[[HostClient], Awaitable[Told]],
    to_disk: Callable[[], Awaitable[Told]],
) -> Told:
    held: JournalHeld | None = None
    for _ in range(TRIES):
        holder = await _holder(loaded, conversation_id)
        try:
            if holder is None:
                return await to_disk()
            async with connected(loaded.folders.data, holder) as client:
                return await to_host(client)
        except JournalHeld as somebody:
            held = somebody
        except (Unreachable, HostLost):
            pass
        await SystemClock().sleep(TRY_AGAIN_S)
    raise held or _out_of_reach(conversation_id, holder)


async def _holder(loaded: Loaded, conversation_id: ConversationId) -> Holder | None:
    async with open_for_reading(loaded) as journal:
        return await holder_of(journal, conversation_id)


def _out_of_reach(conversation_id: ConversationId, holder: Holder | None) -> JournalHeld:
    who = f"process {holder.pid} on {holder.host} ({holder.label})" if holder is not None else "another process"
    return JournalHeld(
        f"Conversation {conversation_id} is held by {who}, which cannot be reached.",
        remedy="It was started as a library or on another machine, or has just ended: speak to it there, or try again.",
    )


@asynccontextmanager
async def _mailbox(loaded: Loaded, conversation_id: ConversationId, label: str) -> AsyncIterator[Mailbox]:
    found = keys_of(loaded.settings.providers.named, process_environment())
    masker = masker_of(loaded).also(each.key.value for each in found if each.key is not None)
    async with opened_journal(loaded, label=label) as journal:
        mailbox = await Mailbox.open(journal, conversation_id, SystemClock(), masker)
        try:
            yield mailbox
        finally:
            await mailbox.close()
