"""A server is asked about its model where that can tell something, and else left in peace."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from turnwright.providers.catalogue import Known
from turnwright.providers.catalogue_routes import AskingAttempts, RouteFacts
from turnwright.schema.parts import Closed, Part, Text
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route

ROUTE = Route(name="o/m", model="m")


class Answers:
    def __init__(self, closed: Closed) -> None:
        self.closed = closed

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        del route, prompt
        yield [Text("hi")]
        yield [self.closed]


@pytest.mark.parametrize(
    ("closed", "known", "asked"),
    [
        (Closed(how="eof", status=200), None, 1),
        (Closed(how="eof", status=200), 8192, 0),
        (Closed(how="stall"), None, 0),
        (Closed(how="transport"), None, 0),
        (Closed(how="http_error", status=500), None, 0),
    ],
)
async def test_after_an_answer_only(closed: Closed, known: int | None, asked: int) -> None:
    questions: list[str] = []

    async def ask() -> Known:
        questions.append("?")
        return Known(id="m", window=4096)

    facts = RouteFacts({"o/m": Known(id="m", window=known)}, lambda: 0.0)
    attempts = AskingAttempts(Answers(closed), facts, {"o/m": ask})
    for _ in range(2):
        async for _ in attempts.attempt(ROUTE, Prompt(lineage="l", system=(), messages=())):
            pass
    assert len(questions) == asked
    assert facts(ROUTE).window == (known or (4096 if asked else None))
