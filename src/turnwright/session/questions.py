"""Questions of running turns, and whoever may answer: the person at this terminal, or another process of the user."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from turnwright.kernel.ports import Ask, Clock, Question
from turnwright.schema.errors import InputError
from turnwright.schema.ids import ConversationId


class Questions:
    """`kernel.ports.Ask` for any number of conversations. The first answer counts.

    `here` is asked at once where somebody sits here; then a question waits as long as they do. Otherwise it waits
    `wait_s` for another process, and what nobody has answered by then is a denial.
    """

    def __init__(self, here: Ask | None, clock: Clock, *, wait_s: float) -> None:
        self._here = here
        self._clock = clock
        self._wait_s = wait_s
        self._open: dict[str, tuple[Question, asyncio.Future[str | None]]] = {}

    async def __call__(self, question: Question) -> str | None:
        if self._here is None and self._wait_s <= 0:
            return None
        answered: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._open[question.approval_id] = question, answered
        try:
            return await (
                self._wait(answered) if self._here is None else self._ask_here(self._here, question, answered)
            )
        finally:
            self._open.pop(question.approval_id, None)

    def open(self, conversation_id: ConversationId) -> tuple[Question, ...]:
        """Oldest first."""
        return tuple(question for question, _ in self._open.values() if question.conversation_id == conversation_id)

    def answer(self, conversation_id: ConversationId, approval_id: str, answer: str) -> None:
        """Raises InputError where the question is not open, or the answer is none of its choices."""
        question, answered = self._open.get(approval_id, (None, None))
        if question is None or answered is None or question.conversation_id != conversation_id or answered.done():
            raise InputError(
                f"No question {approval_id} is open in conversation {conversation_id}: it was answered, or given up.",
                remedy=f"`turnwright answer {conversation_id}` lists what is open.",
            )
        if question.choices and answer not in question.choices:
            raise InputError(
                f"{answer!r} is not one of the choices of question {approval_id}.",
                remedy=f"Choose from: {', '.join(question.choices)}.",
            )
        answered.set_result(answer)

    async def _wait(self, answered: asyncio.Future[str | None]) -> str | None:
        timer = self._clock.call_later(self._wait_s, lambda: None if answered.done() else answered.set_result(None))
        try:
            return await answered
        finally:
            timer.cancel()

    async def _ask_here(self, here: Ask, question: Question, answered: asyncio.Future[str | None]) -> str | None:
        asked = asyncio.ensure_future(here(question))
        try:
            await asyncio.wait([asked, answered], return_when=asyncio.FIRST_COMPLETED)
            return answered.result() if answered.done() else asked.result()
        finally:
            asked.cancel()
            with suppress(asyncio.CancelledError):
                await asked
