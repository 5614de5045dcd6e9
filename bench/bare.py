"""The bare loop with the same prompt and tools as ours, so that both post the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.bare_loop import BareAgent, Heard, Reply, Tool
from bench.ours import MODEL, SMALL_TOOLS, look, nap, noop, swallow, workspace_in
from turnwright import standard_tools
from turnwright.app.clock import SystemClock
from turnwright.app.context import system_sections
from turnwright.journal.records import Lease
from turnwright.journal.sqlite import SqliteJournal
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.providers.profiles import endpoint_of, profile_of
from turnwright.schema.facts import AttemptStarted, Fact, ToolStarted
from turnwright.schema.prompt import Prompt
from turnwright.schema.sandbox import UNCONFINED
from turnwright.schema.settings import Provider
from turnwright.tools.registry import Toolbox
from turnwright.wire.http import HttpClient


async def bash(command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return f"{output.decode()}[exit code {process.returncode}]"


SMALL: dict[str, Tool] = {"noop": noop, "look": look, "nap": nap, "swallow": swallow}
REAL: dict[str, Tool] = {"bash": bash}


class CommittingAgent(BareAgent):
    """The same, and each request and each call is on disk before it is made: in our journal, but by itself, without
    replies, results, limits or evidence. Less cannot be durable."""

    def commit_to(self, journal: SqliteJournal, lease: Lease) -> None:
        self._journal, self._lease = journal, lease

    async def _post(self, body: bytes, heard: Heard) -> Reply:
        await self._commit(AttemptStarted(attempt=1, route=MODEL, stream=True))
        return await super()._post(body, heard)

    async def _act(self, names: Sequence[str], called: Sequence[str]) -> Sequence[str]:
        await self._commit(
            *(ToolStarted(name=name, arguments="{}", effect="runs", idempotency="once") for name in names)
        )
        return await super()._act(names, called)

    async def _commit(self, *facts: Fact) -> None:
        await self._journal.append(self._lease, [(0, fact) for fact in facts])


@asynccontextmanager
async def agent(base_url: str, home: Path, *, real_tools: bool = False) -> AsyncIterator[BareAgent]:
    async with HttpClient() as client:
        yield _made(BareAgent, client, base_url, home, real_tools)


@asynccontextmanager
async def committing_agent(base_url: str, home: Path) -> AsyncIterator[BareAgent]:
    async with HttpClient() as client, await SqliteJournal.open(home / "journal", clock=SystemClock()) as journal:
        made = _made(CommittingAgent, client, base_url, home, real_tools=False)
        made.commit_to(journal, await journal.acquire("c_bare", create=True))
        yield made


Made = TypeVar("Made", bound=BareAgent)


def _made(kind: type[Made], client: HttpClient, base_url: str, home: Path, real_tools: bool) -> Made:
    head = request_head(base_url, home, real_tools)
    system = head.pop("messages")[0]["content"]
    return kind(client, f"{base_url}/v1/chat/completions", head, system, REAL if real_tools else SMALL)


def request_head(base_url: str, home: Path, real_tools: bool) -> dict[str, Any]:
    """What our codec sends before there is any history."""
    provider = Provider(dialect="openai-chat", base_url=f"{base_url}/v1")
    endpoint = endpoint_of(profile_of("endpoint", provider), "")
    prompt = Prompt(
        lineage="bare",
        system=system_sections(str(workspace_in(home)), "build", UNCONFINED),
        messages=(),
        tools=Toolbox(standard_tools() if real_tools else SMALL_TOOLS).offered("build"),
    )
    encoded = OpenAIChat().encode_request(prompt, MODEL, b"", True, endpoint.quirks)
    head: dict[str, Any] = msgspec.json.decode(encoded)
    return head
