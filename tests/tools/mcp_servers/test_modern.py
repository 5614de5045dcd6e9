"""Servers of the newest protocol: no handshake, and of changes they tell only those who listen."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest
from serving import Ask, Serving, names

from turnwright.machine.talking import start_talking
from turnwright.schema.mcp import McpServer

MODERN = str(Path(__file__).with_name("modern.py"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_new_tools_join_at_the_next_step(serving: Serving, ask: Ask, way: str) -> None:
    settings = McpServer(command=sys.executable, args=("-I", MODERN), cwd=str(serving.folder))
    site = None
    if way == "http":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        site = await start_talking(serving.keeper, [sys.executable, "-I", MODERN, str(port)], {}, str(serving.folder))
        for _ in range(300):
            if "running on" in site.said():
                break
            await asyncio.sleep(0.05)
        settings = McpServer(url=f"http://127.0.0.1:{port}/mcp")
    server = await serving.ready(settings=settings)
    _, toolbox = serving.offer()
    assert names(toolbox) == ["mcp_tools", "mcp__s__grow"], serving.told
    assert (server.about, (await ask(toolbox, "mcp__s__grow")).output) == ("modern 3", "grown")
    for _ in range(100):
        if len(server.tools) == 2:
            break
        await asyncio.sleep(0.02)
    assert names(toolbox) == ["mcp_tools", "mcp__s__grow", "mcp__s__add"]
    assert (await ask(toolbox, "mcp__s__add", a=1, b=2)).output == "3"
    await serving.close()
    if site is not None:
        await site.process.stop()
