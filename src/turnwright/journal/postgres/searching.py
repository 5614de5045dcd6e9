"""PostgreSQL's own search. Words are cut by the rule of every journal (`search.words`) and given to the server as they
are, so what is found does not depend on its language or locale."""

from __future__ import annotations

from collections.abc import Iterable

from turnwright.journal.postgres.reading import Connection, own_facts, stretches_of
from turnwright.journal.postgres.server import Server
from turnwright.journal.records import Hit
from turnwright.journal.search.said import said
from turnwright.journal.search.words import Phrase, Wanted, excerpt, words
from turnwright.journal.stretches import unpacked
from turnwright.schema.errors import JournalUnwritable
from turnwright.schema.facts import Recorded, refs_of
from turnwright.schema.ids import ConversationId

PAGE = 500
LEXEME_CHARS_MAX = 100
POSITION_MAX = 16_383
POSITIONS_MAX = 255
VECTOR_BYTES_MAX = 900_000

_BEHIND = "SELECT number, id FROM conversations WHERE last_seq > greatest(searched, through) AND NOT pruned"
_FIND = """
    SELECT c.id, s.conversation, s.seq FROM searchable s JOIN conversations c ON c.number = s.conversation
    WHERE s.words @@ $1::tsquery AND NOT c.pruned AND ($3::text[] IS NULL OR EXISTS (
        SELECT 1 FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS shown (owner, after, through)
        WHERE owner = c.id AND s.seq > after AND s.seq <= shown.through
    ))
    ORDER BY s.at DESC, c.id, s.seq DESC LIMIT $2
"""


async def search(server: Server, asked: Wanted, limit: int, conversation_id: ConversationId | None) -> list[Hit]:
    """Newest first."""
    await _catch_up(server)
    query = query_of(asked)

    async def found(connection: Connection, again: bool) -> list[Hit]:
        del again
        hits = []
        within = None if conversation_id is None else await stretches_of(connection, conversation_id)
        columns = (
            [None] * 3 if within is None else [list(each) for each in zip(*(one[1:] for one in within), strict=True)]
        )
        for name, number, seq in await connection.fetch(_FIND, query, limit, *columns):
            facts, _ = await own_facts(connection, name, number, seq - 1, 1)
            for recorded in facts:
                if spoken := said(recorded.fact, (await _payloads(connection, facts)).get):
                    said_by, text = spoken
                    shown = excerpt(text, asked)
                    hits.append(
                        Hit(
                            conversation_id=conversation_id or name,
                            seq=seq,
                            at=recorded.at,
                            said_by=said_by,
                            excerpt=shown,
                        )
                    )
        return hits

    return await server.patiently(found)


async def rebuild(server: Server) -> int:
    async def emptied(connection: Connection, again: bool) -> None:
        del again
        async with connection.transaction():
            await connection.execute("DELETE FROM searchable")
            await connection.execute("UPDATE conversations SET searched = 0")

    await server.patiently(emptied)
    await _catch_up(server)
    return int(await server.patiently(lambda connection, _: connection.fetchval("SELECT count(*) FROM searchable")))


async def _catch_up(server: Server) -> None:
    behind = await server.patiently(lambda connection, _: connection.fetch(_BEHIND))
    try:
        for number, name in behind:
            while await server.patiently(lambda connection, _, n=number, i=name: _page(connection, n, i)):  # type: ignore[misc]
                pass
    except JournalUnwritable:
        # Whoever may only read finds what others have read so far.
        return


async def _page(connection: Connection, number: int, name: ConversationId) -> bool:
    """Whether there may be more. Two who search at once read it once: the row is locked."""
    async with connection.transaction():
        searched = await connection.fetchval("SELECT searched FROM conversations WHERE number = $1 FOR UPDATE", number)
        facts, last = await own_facts(connection, name, number, searched, PAGE)
        if last == searched:
            return False
        payloads = await _payloads(connection, facts)
        rows = [
            (number, recorded.seq, recorded.at, vector_of(words(spoken[1])))
            for recorded in facts
            if (spoken := said(recorded.fact, payloads.get)) is not None
        ]
        await connection.executemany(
            "INSERT INTO searchable VALUES ($1, $2, $3, $4::text::tsvector) ON CONFLICT DO NOTHING", rows
        )
        await connection.execute("UPDATE conversations SET searched = $2 WHERE number = $1", number, last)
    return True


async def _payloads(connection: Connection, facts: Iterable[Recorded]) -> dict[str, bytes]:
    names = [bytes.fromhex(ref.sha256) for recorded in facts for ref in refs_of(recorded.fact)]
    if not names:
        return {}
    rows = await connection.fetch("SELECT sha256, compressed, data FROM blobs WHERE sha256 = ANY($1)", names)
    return {sha256.hex(): unpacked(compressed, data) or b"" for sha256, compressed, data in rows}


def vector_of(spoken: Iterable[str]) -> str:
    """As the server writes one itself. What stands too far back for it counts without its place."""
    where: dict[str, list[int]] = {}
    size = 0
    for position, word in enumerate(spoken, 1):
        places = where.get(word)
        if places is None:
            size += len(word.encode()) + 8
            if size > VECTOR_BYTES_MAX:
                break
            places = where[word] = []
        if len(places) < POSITIONS_MAX:
            places.append(min(position, POSITION_MAX))
            size += 2
    return " ".join(f"'{word}':{','.join(map(str, dict.fromkeys(places)))}" for word, places in where.items())


def query_of(asked: Wanted) -> str:
    return " & ".join(_phrase(phrase) for phrase in asked.phrases)


def _phrase(phrase: Phrase) -> str:
    *whole, last = (f"'{word}'" for word in phrase.words)
    return f"({' <-> '.join([*whole, last + (':*' if phrase.prefix else '')])})"
