"""What is kept of a stream, whatever pieces it comes in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwright.machine.capture import Capture, Spool
from turnwright.machine.port import Keep


@given(
    pieces=st.lists(st.binary(max_size=60), max_size=40),
    head=st.integers(0, 50),
    tail=st.integers(0, 50),
    lines=st.none() | st.integers(0, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_head_tail_and_file_agree_with_the_whole(
    tmp_path: Path, pieces: list[bytes], head: int, tail: int, lines: int | None
) -> None:
    capture = Capture(Keep(head_bytes=head, tail_bytes=tail, lines=lines, spill=True), Spool(tmp_path / "spool"))
    for piece in pieces:
        capture.feed(piece)
    capture.close()
    whole = b"".join(pieces)
    kept = capture.captured()
    rest = whole[head:]
    assert (kept.head, kept.tail) == (whole[:head], rest[max(0, len(rest) - tail) :])
    assert (kept.size, kept.lines) == (len(whole), whole.count(b"\n"))
    too_much = len(whole) > head or (lines is not None and whole.count(b"\n") > lines)
    assert (kept.spilled_to is not None) == too_much
    if kept.spilled_to is not None:
        assert Path(kept.spilled_to).read_bytes() == whole
        assert kept.spilled_bytes == len(whole)


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwright.machine.capture.SPILL_BYTES_MAX", 1_000)
    capture = Capture(Keep(head_bytes=10, tail_bytes=10, spill=True), Spool(tmp_path))
    for number in range(300):
        capture.feed(b"%03d\n" % number)
    capture.close()
    kept = capture.captured()
    assert (kept.size, kept.spilled_bytes, kept.tail) == (1_200, 1_000, b"7\n298\n299\n"[-10:])
    assert kept.spilled_to is not None and Path(kept.spilled_to).stat().st_size == 1_000


def test_a_full_disk_costs_the_file_only(tmp_path: Path) -> None:
    class Full(Spool):
        def create(self) -> tuple[int, str]:
            import os

            return os.open("/dev/full", os.O_WRONLY), "/dev/full"

    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    capture = Capture(Keep(head_bytes=10, tail_bytes=10, spill=True), Full(tmp_path))
    for _ in range(5):
        capture.feed(b"0123456789")
    kept = capture.captured()
    assert (kept.size, kept.spilled_bytes, kept.tail) == (50, 0, b"0123456789")
    assert kept.spill_fault == "/dev/full: No space left on device"


def test_no_folder_costs_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    capture = Capture(Keep(head_bytes=1, spill=True), Spool(tmp_path / "file" / "spool"))
    capture.feed(b"abc")
    capture.feed(b"def")
    assert (capture.captured().spilled_to, capture.captured().size) == (None, 6)
    assert "Not a directory" in capture.captured().spill_fault
