"""What the user says while a turn runs: admitted durably, delivered at a tool boundary or with the next turn (K11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from turnwright.kernel.ports import Letter, Record
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


class Inbox:
    """`steer` goes to the next tool boundary, `queue` waits for the next turn. Nothing admitted is lost by a crash:
    the waiting letters are a fold over facts."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Literal["steer", "queue"], Letter]] = {}
        self._gone: set[str] = set()

    def apply(self, fact: KnownFact | Unknown) -> None:
        match fact:
            case InboxAdmitted(inbox_id=inbox_id, text=text, kind=kind):
                self._waiting[inbox_id] = kind, Letter(inbox_id=inbox_id, text=text)
            case InboxWithdrawn(inbox_id=inbox_id):
                self._forget([inbox_id])
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

    async def admit(self, record: Record, inbox_id: str, text: str, kind: Literal["steer", "queue"]) -> None:
        """Not to be taken before it is durable: whoever was told of a delivery could see it undone by a crash."""
        admitted = InboxAdmitted(inbox_id=inbox_id, text=text, kind=kind)
        await record(admitted)
        self.apply(admitted)

    async def withdraw(self, record: Record, inbox_id: str) -> bool:
        """False where it does not wait: it was delivered or withdrawn before, or there never was one of that id.
        It leaves before that is durable, so that no turn takes it meanwhile."""
        if self._waiting.pop(inbox_id, None) is None:
            return False
        await record(InboxWithdrawn(inbox_id=inbox_id))
        return True

    def take(self) -> Sequence[Letter]:
        """Everything that steers. The caller records the delivery."""
        letters = [letter for kind, letter in self._waiting.values() if kind == "steer"]
        self._forget(letter.inbox_id for letter in letters)
        return letters

    def take_all(self) -> Sequence[Letter]:
        """Everything, to open the next turn."""
        letters = [letter for _, letter in self._waiting.values()]
        self._waiting.clear()
        return letters

    def letters(self) -> tuple[WaitingLetter, ...]:
        """Everything, as a compaction carries it on."""
        return tuple(
            WaitingLetter(inbox_id=letter.inbox_id, text=letter.text, kind=kind)
            for kind, letter in self._waiting.values()
        )

    def _forget(self, inbox_ids: Iterable[str]) -> None:
        for inbox_id in inbox_ids:
            self._gone.add(inbox_id)
            self._waiting.pop(inbox_id, None)
