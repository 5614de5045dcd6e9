"""The official SDKs read the same as we do, but for what we name and they miss. All of it: `python3 dev.py judges`."""

from __future__ import annotations

import pytest
from recorded_traffic import needs_records

from judges import JUDGED, compared, fault_rows, faults, recorded, rows

EVERY = 24


@needs_records
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_recorded_bodies_are_read_alike() -> None:
    bodies = list(recorded(every=EVERY))
    found = compared(bodies)
    assert {body.record.dialect for body in bodies} == set(JUDGED)
    assert not [each for each in found if not each.why], "\n".join(rows("all", len(bodies), found))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_faults_that_they_let_pass_are_named() -> None:
    found = faults()
    table = "\n".join(fault_rows(found))
    named = {"interstitial", "non_json", "empty", "truncated", "in_band_error"}
    assert {each.verdict for each in found} == named, table
    missed = {(each.body.record.dialect, each.verdict) for each in found if each.is_missed}
    assert {("openai-chat", "interstitial"), ("openai-chat", "truncated"), ("anthropic", "truncated")} <= missed, table
