"""How much the database holds of what, and deleting from it. The rules are those of every journal (`pruning`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from turnwright.journal import leases
from turnwright.journal.postgres.reading import Connection, holder_in
from turnwright.journal.postgres.server import Server
from turnwright.journal.processes import is_dead
from turnwright.journal.records import ConversationSummary
from turnwright.journal.stored import Naming, Payload, Pruned, Stored, StoredConversation, Tally, held_reason
from turnwright.schema.ids import ConversationId

_NAMINGS = """
    SELECT f.conversation, f.seq, found[1] AS sha256,
        position(convert_to('"capture":{"sha256":"' || found[1] || '"', 'UTF8') IN f.body) > 0 AS captured
    FROM facts f, regexp_matches(encode(f.body, 'escape'), '[0-9a-f]{64}', 'g') AS found
    WHERE EXISTS (SELECT 1 FROM blobs b WHERE b.sha256 = decode(found[1], 'hex'))
"""
_SIZES = """
    SELECT c.id, c.number, count(f.seq), coalesce(sum(length(f.body) + length(f.link)), 0),
        count(f.seq) FILTER (WHERE f.seq <= (SELECT max(through) FROM conversations k WHERE k.parent = c.number))
    FROM conversations c LEFT JOIN facts f ON f.conversation = c.number GROUP BY c.number
"""
_TABLES = ("conversations", "facts", "blobs", "searchable", "forgotten", "schema_versions")
_SHARED_THROUGH = "SELECT coalesce(max(through), 0) FROM conversations WHERE parent = $1"
_LEFT_BEHIND = """
    SELECT number FROM conversations c WHERE pruned AND EXISTS (SELECT 1 FROM facts f WHERE f.conversation = c.number)
"""


async def stored(server: Server, listed: Sequence[ConversationSummary]) -> Stored:
    async def measured(connection: Connection, again: bool) -> Stored:
        del again
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await _measured(connection, server.place, listed)

    return await server.patiently(measured)


async def _measured(connection: Connection, place: str, listed: Sequence[ConversationSummary]) -> Stored:
    payloads = {
        sha256.hex(): Payload(size, stored_bytes)
        for sha256, size, stored_bytes in await connection.fetch("SELECT sha256, size_bytes, length(data) FROM blobs")
    }
    tally = Tally(payloads)
    tally.add(await _namings(connection))
    sizes = {name: rest for name, *rest in await connection.fetch(_SIZES)}
    return Stored(
        place=place,
        total_bytes=sum([await _relation(connection, table) for table in _TABLES]),
        search_bytes=await _relation(connection, "searchable"),
        facts=sum(count for _, count, *_ in sizes.values()),
        fact_bytes=sum(int(size) for _, _, size, _ in sizes.values()),
        content_bytes=sum(payload.size_bytes for payload in payloads.values()),
        conversations=tuple(
            StoredConversation(
                id=each.id,
                title=each.title or each.first_text,
                last_at=each.last_at,
                facts=sizes[each.id][1],
                fact_bytes=int(sizes[each.id][2]),
                shared_facts=sizes[each.id][3],
                held_by=each.held_by,
                **tally.of(sizes[each.id][0]),
            )
            for each in listed
            if each.id in sizes
        ),
        **tally.whole(),
    )


async def _relation(connection: Connection, table: str) -> int:
    return int(await connection.fetchval("SELECT pg_total_relation_size($1::text::regclass)", table))


async def _namings(connection: Connection) -> list[Naming]:
    return [Naming(*row) for row in await connection.fetch(_NAMINGS)]


async def prune(
    server: Server, asked: Sequence[ConversationId], *, captures: bool, dry_run: bool, host: str, now_ms: int
) -> Pruned:
    async def work(connection: Connection, again: bool) -> Pruned:
        transaction = connection.transaction()
        await transaction.start()
        try:
            pruned = await _pruned(connection, asked, captures, host, now_ms, again)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.rollback() if dry_run else transaction.commit())
        return pruned

    found = await server.patiently(work)
    return Pruned(**{name: getattr(found, name) for name in found.__struct_fields__} | {"dry_run": dry_run})


async def _pruned(
    connection: Connection, asked: Sequence[ConversationId], captures: bool, host: str, now_ms: int, again: bool
) -> Pruned:
    numbers: dict[int, ConversationId] = {}
    kept: dict[ConversationId, str] = {}
    for name in sorted(set(asked)):
        row = await connection.fetchrow("SELECT * FROM conversations WHERE id = $1 FOR UPDATE", name)
        if row is None or row["pruned"]:
            if again:
                continue  # done before, on a connection that broke
            raise leases.no_conversation(name)
        holder = holder_in(row)
        if row["expires_at"] > now_ms and not is_dead(holder, host):
            kept[name] = held_reason(holder)
        else:
            numbers[row["number"]] = name
    # Whoever appends from here on waits: a payload that it names must not be deleted as named by nobody.
    await connection.execute("LOCK TABLE facts IN SHARE MODE")
    names = await _namings(connection)
    if captures:
        going = [each for each in names if each.captured and each.conversation in numbers]
        payloads = {each.sha256 for each in going} - {each.sha256 for each in set(names) - set(going)}
        await connection.execute(
            "INSERT INTO forgotten SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING", _keys(payloads)
        )
        count, size = await _delete_payloads(connection, payloads)
        return Pruned(payloads=count, payload_bytes=size, kept=kept)
    return await _without(connection, numbers, kept, names)


async def _without(
    connection: Connection, numbers: dict[int, ConversationId], kept: dict[ConversationId, str], names: list[Naming]
) -> Pruned:
    facts = fact_bytes = 0
    remaining: dict[int, int] = {}
    left_behind = {number for (number,) in await connection.fetch(_LEFT_BEHIND)}
    # A fork is younger than what it shares: the youngest goes first, and lets go of it.
    for number in sorted(left_behind | numbers.keys(), reverse=True):
        through = remaining[number] = int(await connection.fetchval(_SHARED_THROUGH, number))
        rows = await connection.fetch(
            "DELETE FROM facts WHERE conversation = $1 AND seq > $2 RETURNING length(body) + length(link)",
            number,
            through,
        )
        facts, fact_bytes = facts + len(rows), fact_bytes + sum(size for (size,) in rows)
        await connection.execute("DELETE FROM searchable WHERE conversation = $1", number)
        await _let_go(connection, number, through)
    gone = {each.sha256 for each in names if each.seq > remaining.get(each.conversation, each.seq)}
    stay = {each.sha256 for each in names if each.seq <= remaining.get(each.conversation, each.seq)}
    payloads, payload_bytes = await _delete_payloads(connection, gone - stay)
    return Pruned(
        conversations=tuple(numbers.values()),
        facts=facts,
        fact_bytes=fact_bytes,
        payloads=payloads,
        payload_bytes=payload_bytes,
        kept=kept,
    )


async def _let_go(connection: Connection, number: int, through: int) -> None:
    """Its number is not used again, and whoever still believes to hold it is refused. Its name goes with the last
    fact: while a fork needs some, it stays, for their hashes are tied to it. Its head is where what is left ends."""
    await connection.execute(
        "UPDATE conversations SET pruned = true, generation = generation + 1, expires_at = 0 WHERE number = $1", number
    )
    if through:
        await connection.execute(
            "UPDATE conversations c SET last_seq = $2, last_hash = substring(f.link FROM length(f.link) / 2 + 1) "
            "FROM facts f WHERE c.number = $1 AND f.conversation = $1 AND f.seq = $2",
            number,
            through,
        )
    else:
        await connection.execute(
            "UPDATE conversations SET id = $2, parent = NULL, through = 0, last_seq = 0, "
            "last_hash = decode(repeat('00', length(last_hash)), 'hex') WHERE number = $1",
            number,
            f"pruned {number}",
        )


async def _delete_payloads(connection: Connection, names: Iterable[str]) -> tuple[int, int]:
    rows: list[Any] = await connection.fetch(
        "DELETE FROM blobs WHERE sha256 = ANY($1) RETURNING length(data)", _keys(names)
    )
    return len(rows), sum(size for (size,) in rows)


def _keys(names: Iterable[str]) -> list[bytes]:
    return [bytes.fromhex(name) for name in names]
