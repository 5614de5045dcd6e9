"""The turn belongs to its host: what other processes may see of a conversation that runs here, and do to it (S2).

Nothing here knows how a client is reached: a socket, a web server and a test all hand in requests and a way to send.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, assert_never

from turnwright.schema import hosting as said
from turnwright.schema.errors import InputError, TurnwrightError
from turnwright.schema.facts import ApprovalAnswered, Note, Recorded, TurnEnded, TurnStarted, encode_line
from turnwright.schema.ids import ConversationId, Seq
from turnwright.schema.live import encode_live
from turnwright.session.broadcast import Event
from turnwright.session.conversation import Conversation
from turnwright.session.ports import Journal
from turnwright.session.questions import Questions
from turnwright.views.open_parts import OpenParts

FEED_BYTES_MAX = 1024 * 1024
"""What waits for one follower. One that is slower than this catches up from the journal, and costs the turn nothing."""
PAGE_FACTS = 200

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Lines to one client. Waits while the client does not read."""


class Host:
    """The conversations of this process that others may reach."""

    def __init__(self, journal: Journal[Any]) -> None:
        self._journal = journal
        self._hosted: dict[ConversationId, Hosted] = {}

    def add(self, conversation: Conversation, questions: Questions) -> Hosted:
        """From now on, until it is closed. Add it before its turn begins, so that nothing of that is missed."""
        hosted = Hosted(conversation, questions, self._journal, lambda: self._hosted.pop(conversation.id))
        self._hosted[conversation.id] = hosted
        return hosted

    def find(self, conversation_id: ConversationId) -> Hosted | None:
        return self._hosted.get(conversation_id)


class Hosted:
    """One conversation, as others reach it."""

    def __init__(
        self,
        conversation: Conversation,
        questions: Questions,
        journal: Journal[Any],
        forget: Callable[[], object],
    ) -> None:
        self._conversation = conversation
        self._questions = questions
        self._journal = journal
        self._forget = forget
        self._parts = OpenParts()
        self._last_seq: Seq = 0
        self._turn_ends: asyncio.Future[str] | None = None
        self._answered: dict[str, asyncio.Future[bool]] = {}
        self._feeds: list[Feed] = []
        self._closed = False
        self._unlisten = conversation.listen(self._hear)

    def close(self) -> None:
        """Followers are sent what is left, and then let go."""
        self._forget()
        self._unlisten()
        self._closed = True
        for feed in self._feeds:
            feed.end()
        self._turn_is_over("")

    async def follow(self, since: Seq, send: Send) -> None:
        """Everything after `since`, without a gap and nothing twice, until the conversation is closed here."""
        while True:
            since = await self._caught_up(since, send)
            # No await from here to the feed: what happens in between would be in neither.
            feed = Feed(since)
            self._feeds.append(feed)
            try:
                if self._closed:
                    feed.end()
                opened = said.Open(conversation_id=self._conversation.id, parts=self._parts.now())
                await send(_line(said.encode_message(opened)))
                while lines := await feed.next():
                    await send(lines)
            finally:
                self._feeds.remove(feed)
            since = feed.handed_seq
            if not feed.behind:
                break
            behind = said.Behind(conversation_id=self._conversation.id, skipped=feed.skipped)
            await send(_line(said.encode_message(behind)))
        await send(_line(said.encode_message(said.Gone(conversation_id=self._conversation.id))))

    async def answer(self, request: said.AnyRequest) -> said.Said:
        """Carries out any request but `follow`. When it returns, what it changed is on record."""
        try:
            return await self._answer(request)
        except TurnwrightError as error:
            return refused(request.id, error)

    async def _answer(self, request: said.AnyRequest) -> said.Said:
        match request:
            case said.Steer():
                await self._conversation.steer(request.text, request.inbox_id)
                return said.Heard(id=request.id, running=self._turn_ends is not None)
            case said.Queue():
                await self._conversation.queue(request.text, request.inbox_id)
                return said.Heard(id=request.id, running=self._turn_ends is not None)
            case said.Withdraw():
                return said.Letter(id=request.id, state=await self._conversation.withdraw(request.inbox_id))
            case said.Stop():
                return said.Stopped(id=request.id, reason=await self._stop())
            case said.Questions():
                return said.Asked(id=request.id, questions=self._questions.open(self._conversation.id))
            case said.Answer():
                await self._answer_question(request)
                return said.Done(id=request.id)
            case said.Follow():
                raise AssertionError("followers are served by `follow`")
            case _:
                assert_never(request)

    async def _stop(self) -> str:
        if self._turn_ends is None:
            return ""
        self._conversation.stop()
        return await asyncio.shield(self._turn_ends)

    async def _answer_question(self, request: said.Answer) -> None:
        """Whoever is told that the answer was taken need not give it again, whatever dies after that."""
        self._questions.answer(self._conversation.id, request.approval_id, request.answer)
        recorded = self._answered[request.approval_id] = asyncio.get_running_loop().create_future()
        if not await recorded:
            raise InputError(f"The turn ended before the answer to question {request.approval_id} was on record.")

    async def _caught_up(self, since: Seq, send: Send) -> Seq:
        """From the journal, until nothing newer has been announced here. What is on record and not yet announced is
        left for then: until it is, what it closes still counts as open."""
        while True:
            page = await self._journal.since(self._conversation.id, since, PAGE_FACTS)
            announced = [each for each in page if not self._last_seq or each.seq <= self._last_seq]
            if announced:
                since = announced[-1].seq
                await send(b"".join(_line(encode_line(each)) for each in announced))
            if len(announced) < PAGE_FACTS and since >= self._last_seq:
                return since

    def _hear(self, event: Event) -> None:
        """At once, in the order of things; a follower's slowness ends at its feed."""
        if isinstance(event, Recorded):
            self._last_seq = event.seq
            self._parts.fact(event.fact)
            self._note(event)
            if self._feeds:
                self._feed(_line(encode_line(event)), event.seq)
        else:
            self._parts.live(event)
            if self._feeds:
                self._feed(_line(encode_live(event)), None)

    def _feed(self, line: bytes, seq: Seq | None) -> None:
        for feed in self._feeds:
            feed.push(line, seq)

    def _note(self, recorded: Recorded) -> None:
        match recorded.fact:
            case TurnStarted() | Note(code="turn-resumed"):
                self._turn_ends = self._turn_ends or asyncio.get_running_loop().create_future()
            case TurnEnded(reason=reason):
                self._turn_is_over(reason)
            case ApprovalAnswered(approval_id=approval_id):
                if (waits := self._answered.pop(approval_id, None)) is not None and not waits.done():
                    waits.set_result(True)
            case _:
                pass

    def _turn_is_over(self, reason: str) -> None:
        ends, self._turn_ends = self._turn_ends, None
        if ends is not None and not ends.done():
            ends.set_result(reason)
        answered, self._answered = self._answered, {}
        for waits in answered.values():
            if not waits.done():
                waits.set_result(False)


class Feed:
    """What waits for one follower, up to a bound."""

    def __init__(self, since: Seq) -> None:
        self.behind = False
        self.skipped = 0
        """Live events that it will not get."""
        self.handed_seq = since
        """The last fact that was handed out."""
        self._since = since
        self._lines: deque[tuple[bytes, Seq | None]] = deque()
        self._bytes = 0
        self._ended = False
        self._wakes: asyncio.Future[None] | None = None

    def push(self, line: bytes, seq: Seq | None) -> None:
        if seq is not None and seq <= self._since:
            return
        if self.behind:
            self.skipped += seq is None
            return
        if self._lines and self._bytes + len(line) > FEED_BYTES_MAX:
            self.behind = True
            self.skipped = sum(each is None for _, each in self._lines) + (seq is None)
            self._lines.clear()
        else:
            self._lines.append((line, seq))
            self._bytes += len(line)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    async def next(self) -> bytes:
        """All that waits; nothing where it has fallen behind, or nothing will come any more."""
        while not self._lines:
            if self.behind or self._ended:
                return b""
            self._wakes = wakes = asyncio.get_running_loop().create_future()
            await wakes
        lines, self._lines, self._bytes = self._lines, deque(), 0
        self.handed_seq = next((seq for _, seq in reversed(lines) if seq is not None), self.handed_seq)
        return b"".join(line for line, _ in lines)

    def _wake(self) -> None:
        wakes, self._wakes = self._wakes, None
        if wakes is not None and not wakes.done():
            wakes.set_result(None)


def refused(request_id: int, error: TurnwrightError) -> said.Refused:
    message: str = error.args[0]
    return said.Refused(id=request_id, message=message, remedy=error.remedy)


def _line(encoded: bytes) -> bytes:
    return encoded + b"\n"
