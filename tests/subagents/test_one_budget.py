"""One budget for three levels of conversations in parallel, against a provider that meters, over real sockets (K6)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from metering import LEAF_STEPS, WIDE, Meter, metering

from turnwright.app.reading import open_for_reading
from turnwright.config.load import load
from turnwright.schema.facts import AttemptStarted

INPUT_USD, OUTPUT_USD = 10.0, 40.0
"""Per million tokens."""
CONFIG = f"""
catalogue:
  models:
    metered: {{price: {{input: {INPUT_USD}, output: {OUTPUT_USD}}}, max_output: 400, window: 100000}}
subagents: {{at_once: {WIDE}}}
"""
REQUESTS = 2 + WIDE * 2 + WIDE * WIDE * (LEAF_STEPS + 1)


class Place:
    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.work.mkdir()
        (self.work / "here").write_text("x\n")
        self.home = root / "home"
        self.home.mkdir()
        (self.home / "config.yaml").write_text(CONFIG)

    async def __call__(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        environment = {**os.environ, "TURNWRIGHT_HOME": str(self.home)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "turnwright", *words),
            cwd=self.work,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        assert out, err.decode()
        return process.returncode, [json.loads(line) for line in out.splitlines()]


async def largest_reservation(place: Place, field: str) -> float:
    """Of all model calls of all conversations."""
    loaded = load(place.work, environ={"TURNWRIGHT_HOME": str(place.home)})
    async with open_for_reading(loaded) as journal:
        conversations = [await journal.since(each.id) for each in await journal.conversations(200)]
    assert len(conversations) > 1 + WIDE
    started = [each.fact for facts in conversations for each in facts if isinstance(each.fact, AttemptStarted)]
    return max(float(getattr(fact, field)) for fact in started)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "cap", "reason", "field"),
    [
        ("--max-tokens", 60_000, "token-budget", "reserved_tokens"),
        ("--max-cost", 0.6, "cost-budget", "reserved_usd"),
    ],
)
async def test_a_tree_never_spends_more_than_one_reservation_over_its_cap(
    tmp_path: Path, option: str, cap: float, reason: str, field: str
) -> None:
    place, meter = Place(tmp_path), Meter()

    def spent() -> float:
        return meter.tokens if field == "reserved_tokens" else meter.cost_usd(INPUT_USD, OUTPUT_USD)

    async with metering(meter) as url:
        model = ["--model", "metered", "--base-url", url, "--output", "stream-json"]
        code, lines = await place("run", "root", *model, option, str(cap))
        result = lines[-1]
        assert (code, result["reason"], result["is_error"]) == (56, reason, True), result
        largest = await largest_reservation(place, field)
        print(
            f"{option} {cap:g}: {spent():g} spent in {meter.requests} requests; one reservation is {largest:g} at most"
        )
        assert spent() <= cap + largest
        assert spent() >= 0.5 * cap, "a budget is there to be used"
        assert meter.most_at_once > WIDE, "three levels ask side by side"
        used = result["usage"]["input"] + result["usage"]["output"]
        assert used == meter.tokens, "every call of the tree is metered"
        assert result["cost_usd"] == pytest.approx(meter.cost_usd(INPUT_USD, OUTPUT_USD))

        name = lines[0]["conversation_id"]
        code, lines = await place("resume", name, "--continue", "--output", "stream-json")
        assert (code, lines[-1]["reason"], lines[-1]["steps"]) == (56, reason, 0), "the same cap is still used up"
        before = meter.requests
        code, lines = await place("resume", name, "--continue", "--output", "stream-json", option, str(cap * 20))
        assert (code, lines[-1]["reason"]) == (0, "stop"), lines[-1]
        assert lines[-1]["text"] == "root: done"
        assert meter.requests - before >= REQUESTS - 1, "the work was done anew with the raised cap"
