"""Is every row what was written? Pages are the server's business (`initdb --data-checksums`); rows and payloads are
judged by our own hashes, and the end of each conversation by its head."""

from __future__ import annotations

import hashlib

from turnwright.journal.chain import chain_findings
from turnwright.journal.postgres.reading import Connection, stretches_of
from turnwright.journal.postgres.server import Server
from turnwright.journal.records import Finding, Report
from turnwright.journal.rows import HASH_BYTES, NO_HASH, Row
from turnwright.journal.stretches import unpacked
from turnwright.schema.ids import ConversationId

_ROWS = "SELECT seq, at, schema_version, landmark, body, link FROM facts WHERE conversation = $1 ORDER BY seq"
PREFETCH = 500


async def verify(server: Server) -> Report:
    findings: list[Finding] = []
    # One snapshot, so that what is committed meanwhile cannot look like damage.
    async with (
        server.explained(),
        server.lent() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        blobs = await _payloads(connection, findings)
        known = blobs | {sha256.hex() for (sha256,) in await connection.fetch("SELECT sha256 FROM forgotten")}
        conversations = facts = 0
        for number, name, seq, head in await connection.fetch(
            "SELECT number, id, last_seq, last_hash FROM conversations ORDER BY number"
        ):
            count = await _conversation(connection, number, name, (seq, head), known, findings)
            conversations += count > 0
            facts += count
    return Report(
        folder=server.place, conversations=conversations, facts=facts, blobs=len(blobs), findings=tuple(findings)
    )


async def _payloads(connection: Connection, findings: list[Finding]) -> set[str]:
    blobs: set[str] = set()
    query = "SELECT sha256, size_bytes, compressed, data FROM blobs"
    async for sha256, size, compressed, data in connection.cursor(query, prefetch=PREFETCH // 10):
        content = unpacked(compressed, data)
        if content is None or hashlib.sha256(content).digest() != sha256 or len(content) != size:
            findings.append(Finding(place="blob", message=f"payload {sha256.hex()} is not what was written"))
        blobs.add(sha256.hex())
    return blobs


async def _conversation(
    connection: Connection,
    number: int,
    name: ConversationId,
    head: tuple[int, bytes],
    blobs: set[str],
    findings: list[Finding],
) -> int:
    """How many facts it has of its own."""
    *shared, own = await stretches_of(connection, name)
    before = NO_HASH
    if shared:
        query = "SELECT link FROM facts WHERE conversation = $1 AND seq = $2"
        link = await connection.fetchval(query, shared[-1].number, own.after)
        if link is None:
            what = f"{name} shares {shared[-1].owner} up to seq {own.after}, which is gone"
            findings.append(Finding(place="record", message=what, conversation_id=name, seq=own.after))
        before = (link or NO_HASH)[-HASH_BYTES:]
    rows = [Row(*found) async for found in connection.cursor(_ROWS, number, prefetch=PREFETCH)]
    for found in chain_findings(name, rows, own.after + 1, before, blobs):
        findings += found
    end = (rows[-1].seq, rows[-1].link[HASH_BYTES:]) if rows else (own.after, before)
    if end != head:
        what = f"{name} ends with seq {end[0]}, and {head[0]} was acknowledged"
        findings.append(Finding(place="record", message=what, conversation_id=name, seq=head[0]))
    return len(rows)
