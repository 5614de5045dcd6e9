"""`python -m bench.long FOLDER FACTS`: a conversation of so many facts in the journal there, as a run leaves it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from turnwright.app.clock import SystemClock
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    ContextCompacted,
    ConversationOpened,
    Fact,
    ModelReplied,
    StepStarted,
    Timing,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.messages import AssistantMessage, ToolCall
from turnwright.schema.parts import Usage

CONVERSATION = "c_00000000000000000100"
STEPS_EACH = 50
BATCH = 5_000
COMPACTED_EVERY = 10
"""So many turns fill a window."""
OUTPUT = "".join(f"{number:4}\tvalue = measure(value, {number})\n" for number in range(10))
STEP_MS = 900


def facts_of(count: int) -> Iterator[tuple[int, Fact]]:
    at = 1_795_000_000_000
    yield at, ConversationOpened(workspace="/work", model="openai/bench", turnwright="bench")
    made, turn = 1, 0
    while made < count:
        turn += 1
        turn_id = f"t_{turn:020}"
        yield at, TurnStarted(turn_id=turn_id, text=f"Do what is to be done, part {turn}.")
        for index in range(STEPS_EACH):
            at += STEP_MS
            for fact in _step(turn_id, index):
                yield at, fact
        yield (
            at,
            TurnEnded(turn_id=turn_id, reason="stop", steps=STEPS_EACH, usage=Usage(input=9, output=9), text="Done."),
        )
        made += 2 + 6 * STEPS_EACH
        if turn % COMPACTED_EVERY == 0:
            made += 1
            through = made - 6 * STEPS_EACH // 2
            yield at, ContextCompacted(through_seq=through, digest=f"What was done in {turn} parts.", why="threshold")


def _step(turn_id: str, index: int) -> Iterator[Fact]:
    step_id, call_id = f"{turn_id}#{index}", f"call_{turn_id}_{index}"
    usage = Usage(input=1_000 + 50 * index, output=40, cache_read=1_000 + 50 * (index - 1))
    call = ToolCall(id=call_id, name="read", arguments=f'{{"path":"src/service.py","first_line":{index}}}')
    yield StepStarted(
        turn_id=turn_id, step_id=step_id, index=index, segments={"tools": "0123456789abcdef"}, prefix_chars=5_000
    )
    yield AttemptStarted(turn_id=turn_id, step_id=step_id, attempt=1, route="openai/bench", window=128_000)
    timing = Timing(total_ms=850.0, ttft_ms=300.0, decode_ms=550.0)
    yield AttemptEnded(
        turn_id=turn_id,
        step_id=step_id,
        attempt=1,
        route="openai/bench",
        verdict="tool_calls",
        timing=timing,
        usage=usage,
        cost_usd=0.001,
    )
    message = AssistantMessage(text="I look at the next part of the file.", calls=(call,))
    yield ModelReplied(turn_id=turn_id, step_id=step_id, message=message, verdict="tool_calls")
    yield ToolStarted(
        turn_id=turn_id,
        step_id=step_id,
        call_id=call_id,
        name="read",
        arguments=call.arguments,
        effect="reads",
        idempotency="repeatable",
    )
    yield ToolEnded(
        turn_id=turn_id, step_id=step_id, call_id=call_id, name="read", outcome="ok", output=OUTPUT, duration_ms=12.0
    )


async def write(folder: Path, count: int) -> int:
    """How many there are in the end: the last turn is whole."""
    written = 0
    async with (
        await SqliteJournal.open(folder, clock=SystemClock()) as journal,
        await journal.acquire(CONVERSATION, create=True) as lease,
    ):
        facts = facts_of(count)
        while batch := list(islice(facts, BATCH)):
            written = (await journal.append(lease, batch))[-1]
    return written


if __name__ == "__main__":
    print(asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2]))))
