"""Recorded traffic through the command itself."""

from __future__ import annotations

from recorded_traffic import needs_records
from weather_records import all_decoded, rows


@needs_records
def test_every_record_means_what_it_says_however_it_is_cut() -> None:
    done = all_decoded()
    print("\n".join(rows(done)))
    assert {(each.file, each.cut): each.wrong for each in done if each.wrong} == {}
    assert sum(each.records for each in done) == 3 * 1205
