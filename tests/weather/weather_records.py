"""`turnwright wire decode --records` over all recorded traffic, compared with what each record says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from recorded_traffic import FILES, WRONG, answer, file_of, lines_of, meaning

CUTS = ("whole", "bytes", "random:7")


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """One file, cut in one way."""

    file: str
    cut: str
    records: int
    wrong: dict[str, dict[str, tuple[Any, Any]]]
    """By id: field, what we said, what was expected. Records that are wrong themselves are left out."""


def decoded(file: str, cut: str) -> Decoded:
    words = [sys.executable, "-m", "turnwright", "wire", "decode", "--records", str(file_of(file)), "--cut", cut]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=True)
    wrong: dict[str, dict[str, tuple[Any, Any]]] = {}
    records = [json.loads(line) for line in lines_of(file)]
    answers = done.stdout.splitlines()
    assert len(answers) == len(records), f"{file}, {cut}: {len(answers)} answers to {len(records)} records"
    for record, line in zip(records, answers, strict=True):
        assert json.loads(line)["id"] == record["id"], "answers come in order"
        got, expected = answer(line), meaning(record["expected"])
        if got != expected and record["id"] not in WRONG:
            wrong[record["id"]] = {key: (got[key], expected[key]) for key in got if got[key] != expected[key]}
    return Decoded(file=file, cut=cut, records=len(records), wrong=wrong)


def all_decoded() -> list[Decoded]:
    return [decoded(file, cut) for file in FILES for cut in CUTS]


def rows(done: Sequence[Decoded]) -> list[str]:
    lines = [f"{'file':<20}{'cut':<12}{'records':>8}{'as expected':>13}{'not':>5}"]
    lines += [
        f"{each.file:<20}{each.cut:<12}{each.records:>8}{each.records - len(each.wrong):>13}{len(each.wrong):>5}"
        for each in done
    ]
    total, wrong = sum(each.records for each in done), sum(len(each.wrong) for each in done)
    lines.append(f"{'all':<32}{total:>8}{total - wrong:>13}{wrong:>5}")
    lines += [f"wrong in the data: {name}: {why}" for name, why in WRONG.items()]
    lines += [f"{each.file} {each.cut} {name}: {what}" for each in done for name, what in each.wrong.items()]
    return lines
