"""What a host and its clients say to each other: one JSON object a line, each with its `type`.

The host speaks first (`hello`). A client then sends requests, each with a number of its own; the answer carries the
same number. Answers may come in another order than their requests. After `follow` the facts and live events of the
conversation come in between, as every face shows them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.ids import ConversationId, Seq
from turnwright.schema.live import LiveEvent
from turnwright.schema.tools import Question

PROTOCOL = 1
"""Goes up when an older side would misunderstand. Fields and types may be added without."""
LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line of a client ends its connection."""

LetterState: TypeAlias = Literal["withdrawn", "delivered", "unknown"]
"""What is known of a letter: taken back (now or before), delivered to the model, or never heard of."""


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    id: int
    conversation_id: ConversationId


class Follow(Request, frozen=True, kw_only=True, tag="follow"):
    """Every fact after `since`, then what is open right now, then whatever happens."""

    since: Seq = 0


class Steer(Request, frozen=True, kw_only=True, tag="steer"):
    """Say something to the running turn, after its current tools."""

    text: str
    inbox_id: str
    """Chosen by the client. A letter that is known already is not admitted again, so a client whose connection broke
    may ask once more."""


class Queue(Request, frozen=True, kw_only=True, tag="queue"):
    """Say something that opens the next turn."""

    text: str
    inbox_id: str


class Withdraw(Request, frozen=True, kw_only=True, tag="withdraw"):
    """Take a letter back, if it still waits. Twice is once."""

    inbox_id: str


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """End the running turn; answered when its end is on record."""


class Questions(Request, frozen=True, kw_only=True, tag="questions"):
    """What waits for the user's word."""


class Answer(Request, frozen=True, kw_only=True, tag="answer"):
    """Answer a question; confirmed when the answer is on record."""

    approval_id: str
    answer: str


AnyRequest: TypeAlias = Follow | Steer | Queue | Withdraw | Stop | Questions | Answer


class Said(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """By the host."""


class Hello(Said, frozen=True, kw_only=True, tag="hello"):
    turnwright: str
    pid: int
    protocol: int = PROTOCOL


class Done(Said, frozen=True, kw_only=True, tag="done"):
    """The request was carried out, and what it changed is on record."""

    id: int


class Heard(Said, frozen=True, kw_only=True, tag="heard"):
    """To `steer` and `queue`: the letter is on record. `running`: a turn is under way that may take it."""

    id: int
    running: bool


class Letter(Said, frozen=True, kw_only=True, tag="letter"):
    """To `withdraw`: what became of the letter."""

    id: int
    state: LetterState


class Stopped(Said, frozen=True, kw_only=True, tag="stopped"):
    """To `stop`: why the turn ended, which may have been another reason; empty where none was running."""

    id: int
    reason: str = ""


class Asked(Said, frozen=True, kw_only=True, tag="asked"):
    """To `questions`."""

    id: int
    questions: tuple[Question, ...]


class Refused(Said, frozen=True, kw_only=True, tag="refused"):
    """The request was not carried out, and why. `id` is 0 where it could not be read."""

    id: int
    message: str
    remedy: str = ""


class OpenPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that still grows: the live events so far as one, for whoever comes in between."""

    event: LiveEvent
    skipped_chars: int = 0
    """How much of its beginning is not kept."""


class Open(Said, frozen=True, kw_only=True, tag="open"):
    """Everything that has been shown live and is in no fact yet. Live events that follow come after it."""

    conversation_id: ConversationId
    parts: tuple[OpenPart, ...]


class Behind(Said, frozen=True, kw_only=True, tag="behind"):
    """This client read too slowly: live events were left out. The missing facts and another `open` follow."""

    conversation_id: ConversationId
    skipped: int


class Gone(Said, frozen=True, kw_only=True, tag="gone"):
    """The process does not host the conversation, or no longer does; who followed it was sent everything."""

    conversation_id: ConversationId


AnySaid: TypeAlias = Hello | Done | Heard | Letter | Stopped | Asked | Refused | Open | Behind | Gone

_encoder = msgspec.json.Encoder()


def encode_message(message: Request | Said) -> bytes:
    return _encoder.encode(message)
