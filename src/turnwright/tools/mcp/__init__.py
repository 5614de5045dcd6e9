"""Tools of MCP servers: their life beside the runtime, and their tools as any others."""
