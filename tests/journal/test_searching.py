"""The index of words beside the file: thrown away and made anew whenever it is not what it should be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest
from children import ONE, TWO, RealTime, note

from turnwright.journal.database import DATABASE
from turnwright.journal.search.index import INDEX
from turnwright.journal.search.words import excerpt, matches, spans, wanted
from turnwright.journal.sqlite import SqliteJournal


async def written(folder: Path, name: str, *texts: str) -> None:
    async with (
        await SqliteJournal.open(folder, clock=RealTime()) as journal,
        await journal.acquire(name, create=True) as lease,
    ):
        await journal.append(lease, [note(text) for text in texts])


async def found(folder: Path, query: str) -> list[tuple[str, int]]:
    async with await SqliteJournal.open(folder, clock=RealTime(), read_only=True) as journal:
        return [(hit.conversation_id, hit.seq) for hit in await journal.search(query)]


async def test_what_was_written_before_there_was_an_index(tmp_path: Path) -> None:
    await written(tmp_path, ONE, "a needle", "hay")
    assert not (tmp_path / INDEX).exists(), "appends know nothing of it"
    assert await found(tmp_path, "needle") == [(ONE, 1)]
    assert (tmp_path / INDEX).stat().st_mode & 0o777 == 0o600
    await written(tmp_path, ONE, "another needle")
    assert sorted(await found(tmp_path, "needle")) == [(ONE, 1), (ONE, 3)]


@pytest.mark.parametrize("damage", ["removed", "garbage", "cut", "another version", "flipped"])
async def test_an_index_that_is_not_what_it_should_be(tmp_path: Path, damage: str) -> None:
    await written(tmp_path, ONE, *(f"needle number{number} and some more hay" for number in range(3_000)))
    assert await found(tmp_path, "number2999") == [(ONE, 3_000)]
    path = tmp_path / INDEX
    match damage:
        case "removed":
            path.unlink()
        case "garbage":
            path.write_bytes(b"something else " * 1_000)
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "flipped":
            content = bytearray(path.read_bytes())
            content[4096 : len(content) : 512] = bytes(len(content[4096 : len(content) : 512]))
            path.write_bytes(content)
        case _:
            connection = apsw.Connection(str(path))
            connection.execute("DROP TABLE places; PRAGMA user_version=99")
            connection.close()
    assert await found(tmp_path, "number17") == [(ONE, 18)]
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        assert await journal.reindex() == 3_000


async def test_a_record_that_was_damaged_is_not_found(tmp_path: Path) -> None:
    await written(tmp_path, ONE, "a needle", "another needle")
    await written(tmp_path, TWO, "third needle")
    assert len(await found(tmp_path, "needle")) == 3
    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("UPDATE facts SET body = CAST(replace(body, 'another', 'anether') AS BLOB) WHERE seq = 2")
    connection.close()
    assert sorted(await found(tmp_path, "needle")) == [(ONE, 1), (TWO, 1)]
    (tmp_path / INDEX).unlink()
    assert sorted(await found(tmp_path, "needle")) == [(ONE, 1), (TWO, 1)]


async def test_many_search_at_once(tmp_path: Path) -> None:
    await written(tmp_path, ONE, *(f"needle{number}" for number in range(2_500)))
    asked = [found(tmp_path, f"needle{number * 100}") for number in range(20)]
    assert await asyncio.gather(*asked) == [[(ONE, number * 100 + 1)] for number in range(20)]


def test_words_are_the_same_however_they_are_written() -> None:
    table = [
        ("Straße", "STRASSE", True),
        ("na\u0131ve", "naive", False),
        ("Ångström", "angstrom", True),
        ("file_name.py", '"file name py"', True),
        ("file_name.py", '"name file"', False),
        ("全文検索", "検索", True),
        ("한국어 검색", "검색", True),
        ("हिन्दी", "हिन्दी", True),
        ("x" * 300, "x" * 300, True),
        ("ENOSPC", "eno*", True),
    ]
    assert [matches(text, wanted(query)) for text, query, _ in table] == [expected for *_, expected in table]


def test_an_excerpt_is_one_line_around_the_first_find() -> None:
    text = "word " * 100 + "\n\tthe  needle\x1b[31m here " + "word " * 100
    shown = excerpt(text, wanted("needle"))
    assert shown.startswith("…") and shown.endswith("…") and "the needle" in shown and len(shown) < 170
    assert [shown[start:end] for start, end in spans(shown, wanted("needle"))] == ["needle"]
    assert excerpt("short", wanted("absent")) == "short"
