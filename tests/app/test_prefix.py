"""What a provider is sent, through real processes and sockets: the bytes of one step are the beginning of the next
one's (C2, R6), over two hundred steps, a kill, a resume and a second process; only a compaction begins anew, once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwright.providers.codec import Dialect
from turnwright.providers.script import Call, Script, Step, Tokens
from turnwright.testing.fake_provider import Follow, fake_provider

DIALECTS: tuple[Dialect, ...] = ("openai-chat", "anthropic", "gemini")
GOLDENS = Path(__file__).parent / "goldens"
CACHE = b',"cache_control":{"type":"ephemeral"}'


class Place:
    def __init__(self, root: Path) -> None:
        self.work, self.home, self.config = root / "work", root / "home", root / "config.yaml"
        self.work.mkdir()
        self.bodies: list[bytes] = []
        self.out = root / "out"

    def settings(self, **settings: Any) -> None:
        offered = {"tools": {"include": ["read", "write", "ls"]}}
        self.config.write_text(json.dumps({**offered, **settings}))

    @asynccontextmanager
    async def provider(self, script: Script | Sequence[Step], follow: Follow = "results") -> AsyncIterator[str]:
        async with fake_provider(script, follow=follow, heard=lambda _, body: self.bodies.append(body)) as url:
            yield url

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        with self.out.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "turnwright", *words, "--config", str(self.config)),
                cwd=self.work,
                env={**os.environ, "TURNWRIGHT_HOME": str(self.home)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    async def finish(self, *words: str) -> int:
        process = await self.start(*words)
        return await asyncio.wait_for(process.wait(), 60)

    async def kill_after(self, requests: int, *words: str) -> None:
        """As kill -9 does, while a step is under way."""
        process = await self.start(*words)
        while len(self.bodies) < requests and process.returncode is None:
            await asyncio.sleep(0.005)
        assert process.returncode is None, self.out.read_text()
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.settings()
    return place


def reads(place: Place, count: int) -> list[Step]:
    """Each of another file: the same call over and over would be stopped."""
    for number in range(count):
        (place.work / f"{number}.txt").write_text(f"some text of {number}\n" * 20)
    return [Step(calls=[Call(name="read", arguments={"path": f"{number}.txt"})]) for number in range(count)]


VARIED = " ".join(map(str, range(1_000)))
"""What repeats itself would be stopped."""


def beginning(body: bytes) -> bytes:
    """Without what closes a request: brackets, and the mark that moves along with the end of what is cached."""
    assert body.endswith(b"]}")
    whole = body[:-2]
    return whole.removesuffix(CACHE + b"}]}") if whole.endswith(CACHE + b"}]}") else whole.removesuffix(b"]}")


def breaks(bodies: Sequence[bytes]) -> list[int]:
    """The requests that do not begin with the one before."""
    return [n for n in range(1, len(bodies)) if not bodies[n].startswith(beginning(bodies[n - 1]))]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_begins_with_the_one_before(place: Place, dialect: Dialect) -> None:
    script = Script(steps=[*reads(place, 200), Step(text="Done.", repeat="forever")])
    async with place.provider(script) as url:
        model = ("--model", "m", "--base-url", url, "--dialect", dialect)
        await place.kill_after(80, "run", "read a lot", *model, "--max-steps", "400", "--output", "json")
        await place.kill_after(150, "resume", "last", "--continue", "--max-steps", "400", "--output", "json")
        assert await place.finish("resume", "last", "--continue", "--max-steps", "400", "--output", "json") == 0
        assert await place.finish("run", "--continue", "some more", "--output", "json") == 0
    assert len(place.bodies) >= 202
    assert breaks(place.bodies) == []
    assert place.bodies[-1].count(b"read a lot") == place.bodies[-1].count(b"some more") == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_only_a_compaction_begins_anew(place: Place, dialect: Dialect) -> None:
    """Once each; its own request begins with the step's too, so that it is served from the cache."""
    window = {"models": {"endpoint/m": {"window": 8_000}}}
    place.settings(catalogue=window, loop={"compaction": {"keep_tokens": 1_000}})
    writes = [Call(name="write", arguments={"path": f"{n}.txt", "content": VARIED[:2_000]}) for n in range(30)]
    # Nothing is reported, so that tokens are estimated from characters.
    script = Script(
        steps=[
            *(Step(calls=[call], usage="none") for call in writes),
            Step(text="Done.", repeat="forever"),
        ],
        digest="I wrote the file over and over.",
    )
    async with place.provider(script, follow="requests") as url:
        model = ("--model", "m", "--base-url", url, "--dialect", dialect)
        assert await place.finish("run", "write a lot", *model, "--output", "stream-json") == 0, place.out.read_text()
    told = [json.loads(line) for line in place.out.read_bytes().splitlines() if line.startswith(b"{")]
    compacted = [fact for fact in told if fact["type"] == "context.compacted"]
    assert len(compacted) >= 2
    assert {fact["why"] for fact in compacted} == {"threshold"}
    asking = [number for number, body in enumerate(place.bodies) if b"write a summary of it" in body]
    steps = [body for number, body in enumerate(place.bodies) if number not in asking]
    broken = breaks(steps)
    assert len(broken) == len(asking) == len(compacted)
    for number in broken:
        assert b"I wrote the file over and over." in steps[number]
    for number in asking:
        assert said_in(place.bodies[number]).startswith(beginning(said_in(place.bodies[number - 1])))


def said_in(body: bytes) -> bytes:
    """The messages of a request: that a summary has a shorter limit is nothing that a cache looks at."""
    return body[body.index(b'"contents":[' if b'"contents":[' in body else b'"messages":[') :]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_requests_are_these(place: Place, dialect: Dialect) -> None:
    (place.work / "a.txt").write_text("alpha\n")
    script = Script(
        steps=[
            Step(text="I look.", calls=[Call(name="read", arguments={"path": "a.txt"}), Call(name="ls", arguments={})]),
            Step(reasoning="It is short.", calls=[Call(name="read", arguments={"path": "missing.txt"})]),
            Step(calls=[Call(name="write", arguments={"path": "b.txt"})]),
            Step(text="Done.", usage=Tokens(input=10, output=2)),
        ]
    )
    async with place.provider(script) as url:
        model = ("--model", "m", "--base-url", url, "--dialect", dialect)
        assert await place.finish("run", "look at a.txt", *model, "--output", "json") == 0, place.out.read_text()
    assert breaks(place.bodies) == []
    said = readable(place.bodies, str(place.work))
    golden = GOLDENS / f"requests.{dialect}.txt"
    if os.environ.get("TURNWRIGHT_TEST_WRITE_GOLDENS") == "1":
        golden.write_text(said)
    assert said == golden.read_text()


def readable(bodies: Sequence[bytes], workspace: str) -> str:
    """One line per item: the head of the first request, then each request's messages that are new in it."""
    lines: list[str] = []
    known = 0
    for number, body in enumerate(bodies, 1):
        request = json.loads(body.replace(workspace.encode(), b"WORKSPACE"))
        messages = request.pop("contents" if "contents" in request else "messages")
        if number == 1:
            lines += [f"{key}: {_line(_short(key, value))}" for key, value in request.items()]
        lines.append(f"request {number}: {len(messages)} messages")
        lines += [f"  {_line(_short(message.get('role', ''), message))}" for message in messages[known:]]
        known = len(messages)
    return "\n".join(lines) + "\n"


def _short(key: str, value: Any) -> Any:
    """Of tools their names, of the system prompt its first words: what they say is told elsewhere."""
    match key:
        case "tools":
            declared = value[0].get("functionDeclarations", value)
            marks = [tool["cache_control"] for tool in declared if "cache_control" in tool]
            return [*((tool.get("function") or tool)["name"] for tool in declared), *marks]
        case "system" | "systemInstruction":
            return _first_words(value)
        case _:
            return value


def _first_words(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= 30 else f"{value[:30]}..."
        case dict():
            return {key: _first_words(one) for key, one in value.items()}
        case _:
            return [_first_words(one) for one in value]


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
