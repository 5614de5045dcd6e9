"""A server of the newest protocol, by the SDK: over stdio, or at the port that is given."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("modern", version="3")


@server.tool()
async def grow(ctx: Context) -> str:
    """Learn to add."""
    server.add_tool(add)
    await ctx.notify_tools_changed()
    return "grown"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
