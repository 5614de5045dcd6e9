"""A conversation as a file of its own: everything that the journal holds of it, one JSON object a line.

The head says what it is; then come the facts as every face shows them, byte for byte; then the payloads they name; the
last line has a hash over all lines before it. What is read back is what was written, or an error.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from turnwright.schema.errors import InputError
from turnwright.schema.facts import BlobRef, Recorded, Unknown, decode_body, encode_line, refs_of
from turnwright.schema.ids import CONVERSATION_ID, ConversationId

FORMAT_VERSION = 1


class Head(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    facts: int
    payloads: int
    turnwright: str
    """The version that wrote it."""
    format: Literal["turnwright-conversation"] = "turnwright-conversation"
    version: int = FORMAT_VERSION


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    payload: str
    """Its SHA-256."""
    zlib: str
    """Compressed, in base64."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    end: str
    """The SHA-256 of all lines before this one."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How a fact's line begins."""

    schema_version: int
    conversation_id: ConversationId
    seq: int
    at: int


class Document(msgspec.Struct, frozen=True, kw_only=True):
    head: Head
    facts: tuple[Recorded, ...]
    payloads: Mapping[str, bytes]


def payloads_of(facts: Iterable[Recorded]) -> list[BlobRef]:
    """Each once, in the order in which they are named."""
    found = {ref.sha256: ref for recorded in facts for ref in refs_of(recorded.fact)}
    return list(found.values())


async def document_lines(
    facts: Sequence[Recorded], payload: Callable[[str], Awaitable[bytes]], turnwright: str
) -> AsyncIterator[bytes]:
    refs = payloads_of(facts)
    digest = hashlib.sha256()

    def hashed(line: bytes) -> bytes:
        digest.update(line + b"\n")
        return line + b"\n"

    head = Head(conversation_id=facts[0].conversation_id, facts=len(facts), payloads=len(refs), turnwright=turnwright)
    yield hashed(msgspec.json.encode(head))
    for recorded in facts:
        yield hashed(encode_line(recorded))
    for ref in refs:
        data = base64.b64encode(zlib.compress(await payload(ref.sha256))).decode()
        yield hashed(msgspec.json.encode(Payload(payload=ref.sha256, zlib=data)))
    yield msgspec.json.encode(End(end=digest.hexdigest())) + b"\n"


def is_document(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=Head)
    except msgspec.DecodeError:
        return False
    return True


def read_document(lines: Iterable[bytes]) -> Document:
    """Raises InputError where it is not what was written."""
    numbered = enumerate(lines, 1)
    digest = hashlib.sha256()
    try:
        _, first = next(numbered)
        head = msgspec.json.decode(first, type=Head)
    except (StopIteration, msgspec.DecodeError) as bad:
        raise _broken(1, "it is not the head of a conversation") from bad
    if head.version > FORMAT_VERSION:
        raise InputError(
            f"The file has format {head.version}; this Turnwright knows {FORMAT_VERSION}.", remedy="Upgrade Turnwright."
        )
    digest.update(first + b"\n")
    facts: list[Recorded] = []
    payloads: dict[str, bytes] = {}
    for number, line in numbered:
        if len(facts) < head.facts:
            facts.append(_fact(number, line, head, len(facts) + 1))
        elif len(payloads) < head.payloads:
            payloads.update([_payload(number, line)])
        else:
            _check_end(number, line, digest.hexdigest())
            break
        digest.update(line + b"\n")
    else:
        raise InputError("The file ends too early: something of it is cut off.", remedy="Export it again.")
    missing = [ref.sha256 for ref in payloads_of(facts) if ref.sha256 not in payloads]
    if missing or not facts or CONVERSATION_ID.fullmatch(head.conversation_id) is None:
        raise InputError("The file is not a whole conversation.", remedy="Export it again.")
    return Document(head=head, facts=tuple(facts), payloads=payloads)


def _fact(number: int, line: bytes, head: Head, seq: int) -> Recorded:
    try:
        place = msgspec.json.decode(line, type=Place)
        begins = encode_line(
            Recorded(
                conversation_id=place.conversation_id,
                seq=place.seq,
                at=place.at,
                fact=Unknown(""),
                body=b"{",
                schema_version=place.schema_version,
            )
        )
        if not line.startswith(begins) or (place.conversation_id, place.seq) != (head.conversation_id, seq):
            raise _broken(number, f"it is not fact {seq} of {head.conversation_id}")
        body = b"{" + line[len(begins) :]
        return Recorded(
            conversation_id=place.conversation_id,
            seq=place.seq,
            at=place.at,
            fact=decode_body(body),
            body=body,
            schema_version=place.schema_version,
        )
    except msgspec.DecodeError as bad:
        raise _broken(number, "it is not a fact") from bad


def _payload(number: int, line: bytes) -> tuple[str, bytes]:
    try:
        stored = msgspec.json.decode(line, type=Payload)
        data = zlib.decompress(base64.b64decode(stored.zlib, validate=True))
    except (ValueError, zlib.error) as bad:  # msgspec's and binascii's are ValueErrors
        raise _broken(number, "it is not a payload") from bad
    if hashlib.sha256(data).hexdigest() != stored.payload:
        raise _broken(number, "its payload is not what was written")
    return stored.payload, data


def _check_end(number: int, line: bytes, digest: str) -> None:
    try:
        end = msgspec.json.decode(line, type=End)
    except msgspec.DecodeError as bad:
        raise _broken(number, "it is not the end") from bad
    if end.end != digest:
        raise InputError("The file is not what was written: its hash differs.", remedy="Export it again.")


def _broken(number: int, why: str) -> InputError:
    return InputError(f"Line {number} of the file is damaged: {why}.", remedy="Export the conversation again.")
