"""Attempts that the journal holds the bytes of, and incidents on disk that are tests: a cassette and what it means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import msgspec

from turnwright.app.decode import Decoded, decode_cassette
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import AttemptEnded, Recorded
from turnwright.wire.playback import Sleeper

CASSETTE = ".cassette.ndjson"
EXPECTED = ".expected.json"


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt with its bytes, redacted when they were written."""

    seq: int
    at: int
    ended: AttemptEnded
    cassette: bytes

    @property
    def name(self) -> str:
        """Of its files: unique within a conversation."""
        return f"{self.seq:06d}-{self.ended.verdict}"


async def captured(journal: Journal, facts: Iterable[Recorded]) -> AsyncIterator[Captured]:
    for recorded in facts:
        match recorded.fact:
            case AttemptEnded(capture=ref) as ended if ref is not None:
                cassette = await journal.blob(ref.sha256)
                yield Captured(seq=recorded.seq, at=recorded.at, ended=ended, cassette=cassette)
            case _:
                pass


async def keep(each: Captured, folder: Path) -> Path:
    """Write an incident: from now on `wire replay` holds its codec to what it says today."""
    return _written(folder, each, _pretty(await decode_cassette(each.cassette)))


def _written(folder: Path, each: Captured, expected: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{each.name}{CASSETTE}"
    path.write_bytes(each.cassette)
    path.with_name(f"{each.name}{EXPECTED}").write_bytes(expected)
    return path


def cassettes_at(path: Path) -> Iterator[Path]:
    """A cassette, or all of a folder."""
    if path.is_dir():
        yield from sorted(path.rglob(f"*{CASSETTE}"))
    elif path.is_file():
        yield path
    else:
        raise InputError(f"There is no cassette at {path}.", remedy="Name a file, or a folder made by wire keep.")


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    decoded: Decoded
    differs: bool
    """There is an expectation beside it, and it does not hold."""


async def replay(path: Path, clock: Sleeper | None = None) -> Replayed:
    cassette, expected = _read(path)
    decoded = await decode_cassette(cassette, clock=clock)
    return Replayed(path=str(path), decoded=decoded, differs=expected is not None and expected != _pretty(decoded))


def _read(path: Path) -> tuple[bytes, bytes | None]:
    """A cassette, and what was expected of it where somebody kept that."""
    expected = path.with_name(path.name.removesuffix(CASSETTE) + EXPECTED)
    return path.read_bytes(), expected.read_bytes() if expected.is_file() else None


def _pretty(decoded: Decoded) -> bytes:
    return msgspec.json.format(msgspec.json.encode(decoded), indent=2) + b"\n"
