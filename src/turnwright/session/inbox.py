"""What the user says while a turn runs: admitted durably, delivered at a tool boundary or with the next turn (K11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, TypeAlias

from turnwright.kernel.ports import Letter, Record
from turnwright.schema.errors import InputError
from turnwright.schema.facts import (
    ContextCompacted,
    InboxAdmitted,
    InboxWithdrawn,
    KnownFact,
    SteeringDelivered,
    TurnStarted,
    Unknown,
    WaitingLetter,
)
from turnwright.schema.hosting import LetterState
from turnwright.schema.ids import ConversationId
from turnwright.schema.masking import Masker
from turnwright.session.broadcast import Broadcast
from turnwright.session.ports import Journal, Lease, NoCaptures, WallClock
from turnwright.session.recorder import Recorder

LetterKind: TypeAlias = Literal["steer", "queue"]


def heard(text: str, masker: Masker) -> str:
    """What the user says, as it may be kept and sent on."""
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        raise InputError(
            f"The text cannot be written as UTF-8: character {bad.start + 1} is a stray byte or half a character.",
            remedy="Give it in UTF-8.",
        ) from bad
    return masker(text)


class Inbox:
    """`steer` goes to the next tool boundary, `queue` waits for the next turn. Nothing admitted is lost by a crash:
    the waiting letters are a fold over facts."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[LetterKind, Letter]] = {}
        self._gone: dict[str, LetterState] = {}

    def apply(self, fact: KnownFact | Unknown) -> None:
        match fact:
            case InboxAdmitted(inbox_id=inbox_id, text=text, kind=kind):
                self._waiting[inbox_id] = kind, Letter(inbox_id=inbox_id, text=text)
            case InboxWithdrawn(inbox_id=inbox_id):
                self._waiting.pop(inbox_id, None)
                self._gone[inbox_id] = "withdrawn"
            case ContextCompacted(waiting=letters):
                # One may have been withdrawn while the compaction was on its way to the journal.
                for one in letters:
                    if one.inbox_id not in self._gone:
                        self._waiting[one.inbox_id] = one.kind, Letter(inbox_id=one.inbox_id, text=one.text)
            case SteeringDelivered(inbox_ids=inbox_ids) | TurnStarted(inbox_ids=inbox_ids):
                self._forget(inbox_ids)
            case _:
                pass

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    async def admit(self, record: Record, inbox_id: str, text: str, kind: LetterKind) -> None:
        """Not to be taken before it is durable: whoever was told of a delivery could see it undone by a crash. A
        letter that is known already is not admitted again."""
        if not text.strip():
            raise InputError("There is nothing to say: the text is empty.", remedy="Say it in words.")
        if inbox_id in self._waiting or inbox_id in self._gone:
            return
        admitted = InboxAdmitted(inbox_id=inbox_id, text=text, kind=kind)
        await record(admitted)
        self.apply(admitted)

    async def withdraw(self, record: Record, inbox_id: str) -> LetterState:
        """Only what waits can be taken back; of anything else it is said what became of it. It leaves before that is
        durable, so that no turn takes it meanwhile."""
        if self._waiting.pop(inbox_id, None) is None:
            return self._gone.get(inbox_id, "unknown")
        self._gone[inbox_id] = "withdrawn"
        await record(InboxWithdrawn(inbox_id=inbox_id))
        return "withdrawn"

    def take(self) -> Sequence[Letter]:
        """Everything that steers. The caller records the delivery."""
        letters = [letter for kind, letter in self._waiting.values() if kind == "steer"]
        self._forget([letter.inbox_id for letter in letters])
        return letters

    def take_all(self) -> Sequence[Letter]:
        """Everything, to open the next turn."""
        letters = [letter for _, letter in self._waiting.values()]
        self._forget([letter.inbox_id for letter in letters])
        return letters

    def letters(self) -> tuple[WaitingLetter, ...]:
        """Everything, as a compaction carries it on."""
        return tuple(
            WaitingLetter(inbox_id=letter.inbox_id, text=letter.text, kind=kind)
            for kind, letter in self._waiting.values()
        )

    def _forget(self, inbox_ids: Iterable[str]) -> None:
        for inbox_id in inbox_ids:
            self._waiting.pop(inbox_id, None)
            self._gone[inbox_id] = "delivered"


class Mailbox:
    """The inbox of a conversation that nobody runs: what is put in waits for its next turn."""

    def __init__(self, lease: Lease, record: Record, masker: Masker) -> None:
        self._lease = lease
        self._record = record
        self._masker = masker
        self._inbox = Inbox()

    @classmethod
    async def open(
        cls, journal: Journal[Any], conversation_id: ConversationId, clock: WallClock, masker: Masker
    ) -> Self:
        """Raises JournalHeld where somebody runs it."""
        lease = await journal.acquire(conversation_id)
        mailbox = cls(lease, Recorder(journal, lease, clock, masker, Broadcast(), NoCaptures()), masker)
        for recorded in await journal.opening(conversation_id):
            mailbox._inbox.apply(recorded.fact)
        return mailbox

    async def admit(self, inbox_id: str, text: str, kind: LetterKind) -> None:
        await self._inbox.admit(self._record, inbox_id, heard(text, self._masker), kind)

    async def withdraw(self, inbox_id: str) -> LetterState:
        return await self._inbox.withdraw(self._record, inbox_id)

    async def close(self) -> None:
        await self._lease.release()
