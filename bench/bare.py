"""The bare loop with the same prompt and tools as ours, so that both post the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.bare_loop import BareAgent, Tool
from bench.ours import MODEL, SMALL_TOOLS, look, nap, noop, swallow, workspace_in
from turnwright import standard_tools
from turnwright.app.context import system_sections
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.providers.profiles import endpoint_of, profile_of
from turnwright.schema.prompt import Prompt
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


@asynccontextmanager
async def agent(base_url: str, home: Path, *, real_tools: bool = False) -> AsyncIterator[BareAgent]:
    head = request_head(base_url, home, real_tools)
    system = head.pop("messages")[0]["content"]
    async with HttpClient() as client:
        yield BareAgent(client, f"{base_url}/v1/chat/completions", head, system, REAL if real_tools else SMALL)


def request_head(base_url: str, home: Path, real_tools: bool) -> dict[str, Any]:
    """What our codec sends before there is any history."""
    provider = Provider(dialect="openai-chat", base_url=f"{base_url}/v1")
    endpoint = endpoint_of(profile_of("endpoint", provider), "")
    prompt = Prompt(
        lineage="bare",
        system=system_sections(str(workspace_in(home)), "build", "none"),
        messages=(),
        tools=Toolbox(standard_tools() if real_tools else SMALL_TOOLS).offered("build"),
    )
    encoded = OpenAIChat().encode_request(prompt, MODEL, b"", True, endpoint.quirks)
    head: dict[str, Any] = msgspec.json.decode(encoded)
    return head
