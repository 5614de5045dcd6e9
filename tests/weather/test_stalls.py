"""A provider that keeps the line warm and says nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from weather_runs import Nursery, Place, Ran, nursery, run_words

from turnwright.testing.fault_table import cases
from turnwright.testing.faults import serve

GAP_S = 3.0
PULSE_S = 1.0

CASES = {
    "warm-text.openai-chat.stream.text": ("keepalive_only", 1),
    "warm-text.openai-responses.stream.text": ("keepalive_only", 1),
    "warm-arguments.anthropic.stream.tools": ("keepalive_only", 1),
    "pinged-text.anthropic.stream.text": ("keepalive_only", 1),
    "warm-text.gemini.stream.text": ("keepalive_only", 1),
    "warm-text.ollama.stream.text": ("keepalive_only", 1),
    "warm-first-part.openai-chat.stream.text": ("keepalive_only", 3),
    "silent-text.openai-chat.stream.text": ("gap", 1),
    "silent-first-part.openai-chat.stream.text": ("first_part", 3),
}
"""Each with the reason that is to be given, and with the tries that it gets."""


async def test_a_stall_kept_warm_each_second_ends_within_the_gap_and_a_second(tmp_path: Path) -> None:
    chosen = [case for case in cases() if case.id in CASES]
    assert len(chosen) == len(CASES)
    settings = {"timers": {"first_byte_s": GAP_S, "gap_s": GAP_S, "total_s": 60}, "logging": {"level": "error"}}

    async with serve(chosen, pulse_s=PULSE_S) as server, nursery() as forks:

        async def one(name: str, dialect: str, forks: Nursery) -> tuple[str, Ran, int]:
            place = Place(tmp_path / name)
            ran = await forks.run(place, *run_words(server.url(name), dialect, place.config(settings), place.work))
            return name, ran, len(server.seen(name))

        for name, ran, requests in await asyncio.gather(*(one(case.id, case.dialect, forks) for case in chosen)):
            reason, tries = CASES[name]
            ends = ran.facts("attempt.ended")
            assert requests == len(ends) == tries, name
            for ended in ends:
                assert (ended["verdict"], ended["fault"]["stall"]) == ("stall", reason), name
                assert GAP_S * 1000 <= ended["timing"]["total_ms"] <= (GAP_S + 1) * 1000, f"{name}: {ended['timing']}"
