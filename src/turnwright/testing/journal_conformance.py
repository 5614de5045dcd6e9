"""What every journal must do. Run each of `CHECKS` against your own:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_conformance(check, tmp_path):
        async def open_journal(clock, label=""):
            return await MyJournal.open(tmp_path, clock=clock, label=label)

        await check(open_journal)

`open_journal` is called several times within a check. Each call opens one more journal on the same storage, as another
process would; the check closes what it opened.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from turnwright.schema.errors import InputError, JournalDamaged, JournalHeld
from turnwright.schema.facts import (
    AttemptEnded,
    BlobRef,
    ContextCompacted,
    ConversationOpened,
    Fact,
    Note,
    Recorded,
    Timing,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    Unknown,
    decode_body,
    encode_body,
)
from turnwright.schema.ids import Prefix

Raised = TypeVar("Raised", bound=Exception)

ONE, TWO = "c_00000000000000000001", "c_00000000000000000002"
PATIENCE_S = 10.0
LEASE_S = 45


class WallTime:
    """A wall clock that moves when told to."""

    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class Journal(Protocol):
    """The shape of a journal. Summaries and reports are read by name only."""

    async def acquire(self, conversation_id: str, *, create: bool = False, prefix: Prefix | None = None) -> Any: ...

    async def append(
        self, lease: Any, facts: Sequence[tuple[int, Fact]], blobs: Mapping[str, bytes] = ...
    ) -> Sequence[int]: ...

    async def restore(
        self, lease: Any, facts: Sequence[Recorded], blobs: Mapping[str, bytes] = ...
    ) -> Sequence[int]: ...

    async def since(self, conversation_id: str, seq: int = 0, limit: int | None = None) -> Sequence[Recorded]: ...

    async def before(self, conversation_id: str, seq: int, limit: int) -> Sequence[Recorded]: ...

    async def tail(self, conversation_id: str, limit: int) -> Sequence[Recorded]: ...

    async def opening(self, conversation_id: str) -> Sequence[Recorded]: ...

    def follow(self, conversation_id: str, since: int = 0) -> AsyncIterator[Recorded]: ...

    async def blob(self, sha256: str) -> bytes: ...

    async def conversations(self, limit: int = ...) -> Sequence[Any]: ...

    def damaged(self, conversation_id: str) -> Sequence[Any]: ...

    async def search(self, query: str, limit: int = ..., conversation_id: str | None = None) -> Sequence[Any]: ...

    async def reindex(self) -> int: ...

    async def stored(self) -> Any: ...

    async def prune(self, conversations: Sequence[str], *, captures: bool = False, dry_run: bool = False) -> Any: ...

    async def verify(self) -> Any: ...

    async def close(self) -> None: ...


class OpenJournal(Protocol):
    async def __call__(self, clock: WallTime, label: str = "") -> Journal: ...


Check: TypeAlias = Callable[[OpenJournal], Awaitable[None]]


class FromTheFuture(Fact, frozen=True, kw_only=True, tag="future.happened"):
    """A fact that no version knows yet."""

    what: str


class _Bench:
    """Opens journals on one storage and one clock, and closes them."""

    def __init__(self, open_journal: OpenJournal, stack: AsyncExitStack) -> None:
        self.clock = WallTime()
        self._open_journal = open_journal
        self._stack = stack

    async def journal(self, label: str = "") -> Journal:
        journal = await self._open_journal(self.clock, label)
        self._stack.push_async_callback(journal.close)
        return journal


@asynccontextmanager
async def _bench(open_journal: OpenJournal) -> AsyncIterator[_Bench]:
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        yield _Bench(open_journal, stack)


def _note(text: str) -> tuple[int, Fact]:
    return 1_000, Note(code="test", text=text)


def _opened(**fields: Any) -> tuple[int, Fact]:
    return 500, ConversationOpened(workspace="/w", model="m", turnwright="0.1", **fields)


async def _raises(kind: type[Raised], awaited: Awaitable[object]) -> Raised:
    try:
        await awaited
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def _texts(facts: Sequence[Recorded]) -> list[str]:
    return [recorded.fact.text for recorded in facts if isinstance(recorded.fact, Note)]


def _seqs(facts: Sequence[Recorded]) -> list[int]:
    return [recorded.seq for recorded in facts]


async def _taken_over(bench: _Bench, journal: Journal) -> Any:
    """Time passes until the holder's lease has run out; a journal may renew it a last time meanwhile."""
    for _ in range(5):
        bench.clock.now_ms += LEASE_S * 1000 + 1
        try:
            return await journal.acquire(ONE)
        except JournalHeld:
            continue
    raise AssertionError("the lease never ran out")


async def _next(facts: AsyncIterator[Recorded]) -> Recorded:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(facts)


async def _end(facts: AsyncIterator[Recorded]) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(facts, None) is None


async def seqs_begin_at_one_and_have_no_gaps(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        assert (lease.conversation_id, lease.last_seq) == (ONE, 0)
        assert list(await journal.append(lease, [_note("a")])) == [1]
        assert list(await journal.append(lease, [_note("b"), _note("c")])) == [2, 3]
        assert lease.last_seq == 3
        other = await journal.acquire(TWO, create=True)
        assert list(await journal.append(other, [_note("d")])) == [1]
        assert _texts(await journal.since(ONE)) == ["a", "b", "c"]
        assert _texts(await journal.since(TWO)) == ["d"]


async def facts_come_back_as_they_were(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        facts: list[Fact] = [
            ConversationOpened(workspace="/w\n\0", model="m", turnwright="0.1", title="Zähler 数 \U0001f642"),
            TurnStarted(turn_id="t", text="x" * 100_000),
            TurnEnded(turn_id="t", reason="stop", text="y"),
        ]
        seqs = await journal.append(lease, [(at, fact) for at, fact in enumerate(facts, 7)])
        expected = [
            Recorded(conversation_id=ONE, seq=seq, at=at, fact=fact, body=encode_body(fact))  # type: ignore[arg-type]
            for seq, (at, fact) in zip(seqs, enumerate(facts, 7), strict=True)
        ]
        assert list(await journal.since(ONE)) == expected


async def an_unknown_fact_is_kept_byte_for_byte(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        fact = FromTheFuture(what="something", step_id="t#1")
        await journal.append(lease, [_note("a"), (2, fact), _note("b")])
        _, unknown, _ = await journal.since(ONE)
        assert (unknown.fact, unknown.body) == (Unknown("future.happened"), encode_body(fact))


async def facts_of_another_journal_come_in_as_they_were(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        data = b"payload"
        sha256 = hashlib.sha256(data).hexdigest()
        ref = BlobRef(sha256=sha256, size_bytes=len(data))
        facts: list[Fact] = [_opened()[1], FromTheFuture(what="x"), Note(code="n", text="t", attachment=ref)]
        elsewhere = [
            Recorded(
                conversation_id=TWO, seq=seq, at=seq * 7, fact=decode_body(body), body=body, schema_version=10 + seq
            )
            for seq, body in enumerate(map(encode_body, facts), 1)
        ]
        lease = await journal.acquire(ONE, create=True)
        assert list(await journal.restore(lease, elsewhere, {sha256: data})) == [1, 2, 3]
        assert list(await journal.append(lease, [_note("after")])) == [4]
        found = await journal.since(ONE, 0, 3)
        assert list(found) == [msgspec.structs.replace(one, conversation_id=ONE) for one in elsewhere]
        assert await journal.blob(sha256) == data
        assert (await journal.verify()).findings == ()


async def reads_give_the_part_that_was_asked_for(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [_note(str(number)) for number in range(1, 11)])
        table = [
            (journal.since(ONE), range(1, 11)),
            (journal.since(ONE, 7), range(8, 11)),
            (journal.since(ONE, 2, 3), range(3, 6)),
            (journal.since(ONE, 2, 0), range(0)),
            (journal.since(ONE, 10), range(0)),
            (journal.since(ONE, 99), range(0)),
            (journal.before(ONE, 4, 2), range(2, 4)),
            (journal.before(ONE, 4, 99), range(1, 4)),
            (journal.before(ONE, 1, 5), range(0)),
            (journal.before(ONE, 99, 1), range(10, 11)),
            (journal.tail(ONE, 3), range(8, 11)),
            (journal.tail(ONE, 99), range(1, 11)),
        ]
        for read, expected in table:
            assert _seqs(await read) == list(expected)


async def opening_reads_from_the_last_compaction(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [_opened(), *(_note(str(seq)) for seq in range(2, 10))])
        assert _seqs(await journal.opening(ONE)) == list(range(1, 10))
        await journal.append(lease, [(1, ContextCompacted(through_seq=4, digest="one to four"))])
        assert _seqs(await journal.opening(ONE)) == [1, *range(5, 11)]
        await journal.append(lease, [_note("11"), (1, ContextCompacted(through_seq=9, digest="more")), _note("13")])
        assert _seqs(await journal.opening(ONE)) == [1, 10, 11, 12, 13]


async def an_unknown_conversation_is_an_input_error(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        reads: list[Awaitable[object]] = [
            journal.acquire(ONE),
            journal.since(ONE),
            journal.before(ONE, 5, 1),
            journal.tail(ONE, 1),
            journal.opening(ONE),
            anext(journal.follow(ONE)),
        ]
        for read in reads:
            assert ONE in str(await _raises(InputError, read))
        assert list(await journal.conversations()) == []


async def a_second_holder_is_told_who_is_first(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        first, second = await bench.journal("the first"), await bench.journal()
        lease = await first.acquire(ONE, create=True)
        await first.append(lease, [_note("a")])
        for journal in (first, second):
            error = await _raises(JournalHeld, journal.acquire(ONE))
            assert ONE in str(error) and "the first" in str(error), error
            assert error.remedy
        assert _texts(await second.since(ONE)) == ["a"]
        [listed] = await second.conversations()
        assert listed.held_by.label == "the first"


async def a_released_conversation_can_be_taken(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        first, second = await bench.journal(), await bench.journal()
        lease = await first.acquire(ONE, create=True)
        await first.append(lease, [_note("a"), _note("b")])
        await lease.release()
        await lease.release()
        later = await second.acquire(ONE)
        assert later.generation > lease.generation
        assert later.last_seq == 2
        assert list(await second.append(later, [_note("c")])) == [3]
        await second.close()
        again = await first.acquire(ONE)
        assert again.last_seq == 3


async def a_lease_that_ran_out_is_lost(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        first, second = await bench.journal("slow"), await bench.journal("quick")
        lease = await first.acquire(ONE, create=True)
        await first.append(lease, [_note("a")])
        taken = await _taken_over(bench, second)
        assert taken.generation > lease.generation
        error = await _raises(JournalHeld, first.append(lease, [_note("late")]))
        assert "quick" in str(error), error
        assert list(await second.append(taken, [_note("b")])) == [2]
        await lease.release()
        assert list(await second.append(taken, [_note("c")])) == [3]
        assert _texts(await first.since(ONE)) == ["a", "b", "c"]


async def payloads_are_stored_once_with_their_fact(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        first, second = await bench.journal(), await bench.journal()
        lease = await first.acquire(ONE, create=True)
        for data in (b"", b"tiny", b"large " * 100_000, bytes(range(256)) * 500):
            sha256 = hashlib.sha256(data).hexdigest()
            ref = BlobRef(sha256=sha256, size_bytes=len(data))
            fact = ToolEnded(call_id="c", name="bash", outcome="ok", output_blob=ref)
            for _ in range(2):
                await first.append(lease, [(1, fact)], {sha256: data})
            assert await first.blob(sha256) == data
            assert await second.blob(sha256) == data
        assert (await first.verify()).blobs == 4
        assert "f" * 64 in str(await _raises(JournalDamaged, first.blob("f" * 64)))


async def followers_catch_up_and_go_on(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        writer, reader = await bench.journal(), await bench.journal()
        lease = await writer.acquire(ONE, create=True)
        await writer.append(lease, [_note("1"), _note("2"), _note("3")])
        followers = [writer.follow(ONE, 0), reader.follow(ONE, 0), reader.follow(ONE, 2)]
        seen = [
            [(await _next(follower)).seq for _ in range(wanted)]
            for follower, wanted in zip(followers, (3, 3, 1), strict=True)
        ]
        assert seen == [[1, 2, 3], [1, 2, 3], [3]]
        waiting = [asyncio.ensure_future(_next(follower)) for follower in followers]
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in waiting)
        await writer.append(lease, [_note("4")])
        assert [recorded.seq for recorded in await asyncio.gather(*waiting)] == [4, 4, 4]
        ending = [asyncio.ensure_future(_end(follower)) for follower in followers]
        await asyncio.sleep(0)
        await reader.close()
        await writer.close()
        assert await asyncio.gather(*ending) == [True, True, True]


async def conversations_are_listed_latest_first(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        one, two = await journal.acquire(ONE, create=True), await journal.acquire(TWO, create=True)
        await journal.acquire("c_000000000000000empty", create=True)
        assert list(await journal.conversations()) == []
        await journal.append(one, [_opened(title="First"), (600, TurnStarted(turn_id="t", text="do it"))])
        await journal.append(two, [_opened()])
        await journal.append(one, [(700, TurnEnded(turn_id="t", reason="max-steps"))])
        await two.release()
        found = [
            (each.id, each.opened_at, each.last_at, each.facts, each.title, each.first_text, each.last_reason)
            for each in await journal.conversations()
        ]
        assert found == [
            (ONE, 500, 700, 3, "First", "do it", "max-steps"),
            (TWO, 500, 500, 1, "", "", None),
        ]
        assert [each.held_by is None for each in await journal.conversations()] == [False, True]
        await journal.append(one, [(800, TurnStarted(turn_id="u", text="again"))])
        [latest] = await journal.conversations(1)
        assert (latest.id, latest.first_text, latest.last_reason) == (ONE, "do it", None)


async def many_write_at_once(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journals = [await bench.journal(), await bench.journal()]

        async def write(number: int) -> None:
            journal = journals[number % 2]
            lease = await journal.acquire(f"c_{number:020d}", create=True)
            for turn in range(10):
                await journal.append(lease, [_note(f"{turn}a"), _note(f"{turn}b")])

        await asyncio.gather(*(write(number) for number in range(20)))
        expected = [f"{turn}{half}" for turn in range(10) for half in "ab"]
        for number in range(20):
            assert _texts(await journals[0].since(f"c_{number:020d}")) == expected
        report = await journals[1].verify()
        assert (report.conversations, report.facts, report.findings) == (20, 400, ())


async def appends_on_one_lease_do_not_mix(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        appends = [journal.append(lease, [_note(f"{number}a"), _note(f"{number}b")]) for number in range(50)]
        seqs = await asyncio.gather(*appends)
        assert sorted(seq for pair in seqs for seq in pair) == list(range(1, 101))
        texts = _texts(await journal.since(ONE))
        for number, (first, second) in enumerate(seqs):
            assert second == first + 1
            assert texts[first - 1 : second] == [f"{number}a", f"{number}b"]


async def what_was_appended_outlives_the_journal(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        keeper = await bench.journal()
        first = await bench.journal()
        await first.append(await first.acquire(ONE, create=True), [_note("a")])
        await first.close()
        await first.close()
        second = await bench.journal()
        lease = await second.acquire(ONE)
        assert list(await second.append(lease, [_note("b")])) == [2]
        assert _texts(await keeper.since(ONE)) == ["a", "b"]


async def an_append_that_nobody_awaits_is_whole_or_absent(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        for _ in range(20):
            task = asyncio.ensure_future(journal.append(lease, [_note("a"), _note("b")]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert list(await journal.append(lease, [_note("last")]))
        texts = _texts(await journal.since(ONE))
        assert texts[-1] == "last"
        assert texts[:-1] == ["a", "b"] * (len(texts) // 2)
        assert (await journal.verify()).clean


async def _forked(journal: Journal, parent: str, through: int, child: str) -> Any:
    return await journal.acquire(child, create=True, prefix=Prefix(parent, through))


async def a_fork_shows_the_shared_facts_as_its_own(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal, other = await bench.journal(), await bench.journal()
        parent = await journal.acquire(ONE, create=True)
        await journal.append(parent, [_opened(title="First"), *(_note(str(seq)) for seq in range(2, 11))])
        lease = await _forked(journal, ONE, 6, TWO)
        assert lease.last_seq == 6
        assert _texts(await journal.since(TWO)) == ["2", "3", "4", "5", "6"]
        assert [each.id for each in await journal.conversations()] == [ONE]
        opened = _opened(title="Second", parent=ONE, forked_at=6)
        assert list(await journal.append(lease, [opened, _note("8"), _note("9")])) == [7, 8, 9]
        await journal.append(parent, [_note("11")])
        table = [
            (other.since(TWO), range(1, 10)),
            (other.since(TWO, 4, 4), range(5, 9)),
            (other.since(TWO, 2, 3), range(3, 6)),
            (other.since(TWO, 6), range(7, 10)),
            (other.since(TWO, 8), range(9, 10)),
            (other.before(TWO, 9, 4), range(5, 9)),
            (other.before(TWO, 5, 2), range(3, 5)),
            (other.before(TWO, 7, 99), range(1, 7)),
            (other.tail(TWO, 5), range(5, 10)),
            (other.tail(TWO, 2), range(8, 10)),
            (other.opening(TWO), range(1, 10)),
            (other.since(ONE), range(1, 12)),
        ]
        for read, expected in table:
            found = await read
            assert _seqs(found) == list(expected)
            assert len({each.conversation_id for each in found}) == 1
        mine, parents = await other.since(TWO), await other.since(ONE)
        assert [(each.seq, each.body) for each in mine[:6]] == [(each.seq, each.body) for each in parents[:6]]
        follower = other.follow(TWO, 5)
        assert [(await _next(follower)).seq for _ in range(4)] == [6, 7, 8, 9]
        listed = {each.id: (each.title, each.facts) for each in await other.conversations()}
        assert listed == {ONE: ("First", 11), TWO: ("Second", 9)}
        report = await other.verify()
        assert (report.clean, report.conversations, report.facts) == (True, 2, 14), report.findings
        assert list(other.damaged(TWO)) == []


async def a_fork_goes_on_where_it_was_left(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        first, second = await bench.journal(), await bench.journal()
        await first.append(await first.acquire(ONE, create=True), [_opened(), _note("2"), _note("3")])
        lease = await _forked(first, ONE, 2, TWO)
        await first.append(lease, [_opened(parent=ONE, forked_at=2)])
        await lease.release()
        again = await second.acquire(TWO)
        assert again.last_seq == 3
        assert list(await second.append(again, [_note("4")])) == [4]
        assert (await first.verify()).clean


async def a_fork_of_a_fork_reads_through_both(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        await journal.append(await journal.acquire(ONE, create=True), [_note(f"one {seq}") for seq in range(1, 6)])
        await journal.append(await _forked(journal, ONE, 3, TWO), [_note(f"two {seq}") for seq in range(4, 8)])
        late, early = "c_000000000000000child", "c_000000000000000early"
        await journal.append(await _forked(journal, TWO, 5, late), [_note("late 6")])
        await journal.append(await _forked(journal, TWO, 2, early), [_note("early 3")])
        assert _texts(await journal.since(late)) == ["one 1", "one 2", "one 3", "two 4", "two 5", "late 6"]
        assert _texts(await journal.since(early)) == ["one 1", "one 2", "early 3"]
        assert _texts(await journal.before(late, 6, 3)) == ["one 3", "two 4", "two 5"]
        report = await journal.verify()
        assert (report.clean, report.facts) == (True, 11), report.findings


async def a_fork_opens_from_the_compaction_it_shares(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        compacted = (1, ContextCompacted(through_seq=4, digest="one to four"))
        later = (1, ContextCompacted(through_seq=8, digest="more"))
        await journal.append(lease, [_opened(), *(_note(str(seq)) for seq in range(2, 6)), compacted, _note("7")])
        await journal.append(lease, [_note("8"), _note("9"), later])
        await journal.append(await _forked(journal, ONE, 7, TWO), [_opened(parent=ONE, forked_at=7)])
        assert _seqs(await journal.opening(TWO)) == [1, 5, 6, 7, 8]
        assert _seqs(await journal.opening(ONE)) == [1, 9, 10]


async def a_fork_that_was_compacted_opens_with_its_own_beginning(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        await journal.append(await journal.acquire(ONE, create=True), [_opened(), _note("2"), _note("3")])
        lease = await _forked(journal, ONE, 2, TWO)
        await journal.append(lease, [_opened(parent=ONE, forked_at=2), *(_note(str(seq)) for seq in range(4, 8))])
        await journal.append(lease, [(1, ContextCompacted(through_seq=6, digest="most"))])
        assert _seqs(await journal.opening(TWO)) == [1, 3, 7, 8]


async def a_fork_at_no_fact_is_an_input_error(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        assert ONE in str(await _raises(InputError, _forked(journal, ONE, 1, TWO)))
        await journal.append(await journal.acquire(ONE, create=True), [_note("1"), _note("2")])
        for through in (0, -1, 3):
            error = await _raises(InputError, _forked(journal, ONE, through, TWO))
            assert str(through) in str(error) and "1 to 2" in error.remedy
        assert list(await journal.append(await _forked(journal, ONE, 2, TWO), [_note("3")])) == [3]


async def a_sound_journal_verifies_clean(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        report = await journal.verify()
        assert (report.clean, report.facts) == (True, 0)
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [_opened(), _note("a" * 20_000)])
        report = await journal.verify()
        assert (report.clean, report.conversations, report.facts) == (True, 1, 2)
        assert list(journal.damaged(ONE)) == []


def _result(text: str = "", ref: BlobRef | None = None) -> Fact:
    return ToolEnded(call_id="c", name="bash", outcome="ok", output=text, output_blob=ref)


def _payload(text: str) -> tuple[BlobRef, dict[str, bytes]]:
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    return BlobRef(sha256=sha256, size_bytes=len(data)), {sha256: data}


async def words_are_found_in_conversations(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal, other = await bench.journal(), await bench.journal()
        one, two = await journal.acquire(ONE, create=True), await journal.acquire(TWO, create=True)
        ref, blobs = _payload("Traceback\n" * 5_000 + "OSError: No space left on device /var/lib")
        first: list[tuple[int, Fact]] = [
            (10, TurnStarted(turn_id="t", text="The disk is full; see load_config in src/app.py")),
            (20, _result("Größe der Prüfsumme: 数据库 3.14 [café]")),
        ]
        await journal.append(one, first)
        await journal.append(two, [(30, TurnStarted(turn_id="t", text="Is the DISK of the server full?"))])
        await journal.append(two, [(40, _result(ref=ref))], blobs)
        table: list[tuple[str, list[tuple[str, int]]]] = [
            ("disk", [(TWO, 1), (ONE, 1)]),
            ("full disk", [(TWO, 1), (ONE, 1)]),
            ('"disk is full"', [(ONE, 1)]),
            ("load_config", [(ONE, 1)]),
            ("config load", [(ONE, 1)]),
            ('"config load"', []),
            ("src/app.py", [(ONE, 1)]),
            ("serv*", [(TWO, 1)]),
            ("serv", []),
            ("grosse prufsumme", [(ONE, 2)]),
            ("据库", [(ONE, 2)]),
            ("库数", []),
            ("CAFE\u0301 3.14", [(ONE, 2)]),
            ("enospc", []),
            ('oserror "no space left on device"', [(TWO, 2)]),
            ("disk' OR NEAR( AND -full:*", []),
        ]
        for query, expected in table:
            for reader in (journal, other):
                found = [(hit.conversation_id, hit.seq) for hit in await reader.search(query)]
                assert found == expected, (query, found)
        [hit] = await other.search("disk", 1)
        assert (hit.conversation_id, hit.at, hit.said_by) == (TWO, 30, "user")
        assert hit.excerpt == "Is the DISK of the server full?"
        [hit] = await other.search("disk", 9, ONE)
        assert hit.conversation_id == ONE
        [hit] = await other.search("oserror")
        assert hit.said_by == "result" and "OSError: No space left" in hit.excerpt and len(hit.excerpt) < 200
        await journal.append(one, [(50, TurnStarted(turn_id="u", text="the disk again"))])
        assert [hit.seq for hit in await other.search("disk again")] == [3]
        assert await other.reindex() == 5
        assert [hit.seq for hit in await journal.search("disk", 9, ONE)] == [3, 1]
        for query in ("", '"" *', "?!"):
            assert "word" in str(await _raises(InputError, journal.search(query)))
        assert (await journal.verify()).clean


async def a_shared_fact_is_found_once(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        await journal.append(await journal.acquire(ONE, create=True), [_note("needle one"), _note("hay")])
        await journal.append(await _forked(journal, ONE, 2, TWO), [_note("needle two")])
        assert [(hit.conversation_id, hit.seq) for hit in await journal.search("needle")] == [(ONE, 1), (TWO, 3)]
        within = [(hit.conversation_id, hit.seq) for hit in await journal.search("needle", 9, TWO)]
        assert sorted(within) == [(TWO, 1), (TWO, 3)], "all that the fork shows"
        assert [hit.seq for hit in await journal.search("needle", 9, ONE)] == [1]


async def sizes_add_up(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        one = await journal.acquire(ONE, create=True)
        ref, blobs = _payload("shared " * 10_000)
        mine, my_blobs = _payload("mine " * 10_000)
        await journal.append(
            one, [_opened(title="First"), (1, _result(ref=ref)), (1, _result(ref=mine))], blobs | my_blobs
        )
        await one.release()
        two = await _forked(journal, ONE, 2, TWO)
        await journal.append(two, [_opened(), (1, _result(ref=ref))], blobs)
        stored = await journal.stored()
        by_id = {each.id: each for each in stored.conversations}
        assert list(by_id) == [TWO, ONE]
        assert [(each.title, each.facts, each.payloads) for each in by_id.values()] == [
            ("", 2, 1),
            ("First", 3, 2),
        ]
        assert (by_id[ONE].shared_facts, by_id[TWO].shared_facts) == (2, 0)
        assert (by_id[ONE].held_by is None, by_id[TWO].held_by is None) == (True, False)
        assert (stored.facts, stored.payloads, stored.unreadable) == (5, 2, 0)
        assert stored.fact_bytes == sum(each.fact_bytes for each in stored.conversations) > 5 * 32
        assert stored.content_bytes == ref.size_bytes + mine.size_bytes
        assert stored.payload_bytes == by_id[ONE].payload_bytes > by_id[TWO].payload_bytes > 0
        assert stored.total_bytes >= stored.fact_bytes + stored.payload_bytes


async def only_what_nobody_needs_is_pruned(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal, other = await bench.journal("the first"), await bench.journal("the second")
        one = await journal.acquire(ONE, create=True)
        ref, blobs = _payload("shared " * 10_000)
        mine, my_blobs = _payload("mine " * 10_000)
        late, late_blobs = _payload("late " * 10_000)
        await journal.append(one, [_opened(), (1, _result(ref=ref)), (1, _result(ref=mine))], blobs | my_blobs)
        fork, third = "c_00000000000000000fork", "c_0000000000000000third"
        forked = await _forked(journal, ONE, 2, fork)
        await journal.append(forked, [_opened(), (1, _result(ref=late))], late_blobs)
        await journal.append(await journal.acquire(TWO, create=True), [_opened(), (1, _result(ref=late))], late_blobs)
        kept = await other.acquire(third, create=True)
        await other.append(kept, [_opened(), _note("needle")])
        assert dict((await other.prune([ONE])).kept).keys() == {ONE}, "it is being written"
        await one.release()
        await forked.release()
        tried = await other.prune([ONE, third], dry_run=True)
        assert (tried.conversations, tried.facts, tried.payloads, tried.dry_run) == ((ONE,), 1, 1, True)
        assert tried.kept.keys() == {third} and "process" in tried.kept[third]
        assert len(await journal.since(ONE)) == 3 and await journal.blob(mine.sha256) == my_blobs[mine.sha256]
        done = await other.prune([ONE, third])
        assert (done.conversations, done.facts, done.payloads, done.dry_run) == ((ONE,), 1, 1, False)
        assert (done.fact_bytes, done.payload_bytes) == (tried.fact_bytes, tried.payload_bytes)
        assert ONE in str(await _raises(InputError, other.prune([ONE])))
        for read in (journal.since(ONE), journal.acquire(ONE), other.tail(ONE, 1), _forked(other, ONE, 1, "c_x")):
            assert ONE in str(await _raises(InputError, read))
        assert [each.id for each in await other.conversations()] == [third, TWO, fork]
        assert [each.seq for each in await other.since(fork)] == [1, 2, 3, 4]
        assert await other.blob(ref.sha256) == blobs[ref.sha256], "the fork shows it"
        await _raises(JournalDamaged, other.blob(mine.sha256))
        report = await other.verify()
        assert report.clean, report.findings
        again = await journal.acquire(fork)
        assert list(await journal.append(again, [_note("5")])) == [5]
        await again.release()
        assert (await journal.prune([fork])).conversations == (fork,)
        await _raises(JournalDamaged, journal.blob(ref.sha256))
        assert await journal.blob(late.sha256) == late_blobs[late.sha256], "another names it"
        assert [each.id for each in await other.conversations()] == [third, TWO]
        assert [(hit.conversation_id, hit.seq) for hit in await other.search("needle")] == [(third, 2)]
        report = await other.verify()
        assert report.clean, report.findings
        back = await other.acquire(ONE, create=True)
        assert list(await other.append(back, [_note("a needle that came back")])) == [1]
        assert len(await other.search("needle")) == 2
        assert (await other.verify()).clean


async def captures_can_be_pruned_alone(open_journal: OpenJournal) -> None:
    async with _bench(open_journal) as bench:
        journal = await bench.journal()
        lease = await journal.acquire(ONE, create=True)
        capture, capture_blobs = _payload("bytes of an attempt " * 1_000)
        output, output_blobs = _payload("output " * 10_000)
        ended = AttemptEnded(
            attempt=1, route="r", verdict="truncated", timing=Timing(total_ms=1.0), capture=capture, step_id="t#0"
        )
        await journal.append(lease, [_opened(), (1, ended), (1, _result(ref=output))], capture_blobs | output_blobs)
        await lease.release()
        [each] = (await journal.stored()).conversations
        assert (each.payloads, each.captures) == (2, 1) and 0 < each.capture_bytes < each.payload_bytes
        pruned = await journal.prune([ONE], captures=True)
        assert (pruned.conversations, pruned.facts, pruned.payloads) == ((), 0, 1)
        assert "pruned" in str(await _raises(InputError, journal.blob(capture.sha256)))
        assert await journal.blob(output.sha256) == output_blobs[output.sha256]
        assert len(await journal.since(ONE)) == 3
        assert (await journal.verify()).clean
        assert (await journal.stored()).captures == 0


CHECKS: tuple[Check, ...] = (
    seqs_begin_at_one_and_have_no_gaps,
    facts_come_back_as_they_were,
    an_unknown_fact_is_kept_byte_for_byte,
    facts_of_another_journal_come_in_as_they_were,
    reads_give_the_part_that_was_asked_for,
    opening_reads_from_the_last_compaction,
    an_unknown_conversation_is_an_input_error,
    a_second_holder_is_told_who_is_first,
    a_released_conversation_can_be_taken,
    a_lease_that_ran_out_is_lost,
    payloads_are_stored_once_with_their_fact,
    followers_catch_up_and_go_on,
    conversations_are_listed_latest_first,
    many_write_at_once,
    appends_on_one_lease_do_not_mix,
    what_was_appended_outlives_the_journal,
    an_append_that_nobody_awaits_is_whole_or_absent,
    a_fork_shows_the_shared_facts_as_its_own,
    a_fork_goes_on_where_it_was_left,
    a_fork_of_a_fork_reads_through_both,
    a_fork_opens_from_the_compaction_it_shares,
    a_fork_that_was_compacted_opens_with_its_own_beginning,
    a_fork_at_no_fact_is_an_input_error,
    a_sound_journal_verifies_clean,
    words_are_found_in_conversations,
    a_shared_fact_is_found_once,
    sizes_add_up,
    only_what_nobody_needs_is_pruned,
    captures_can_be_pruned_alone,
)
