"""A provider that meters: a real server, which counts every token that it says was used. What it answers depends on the
brief that a conversation began with, so that a whole tree of them asks it at once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

WIDE = 3
"""So many subagents are sent by each conversation that sends any."""
LEAF_STEPS = 4
REPLY_TOKENS = 40
CHARS_PER_TOKEN = 5
"""More than any estimate assumes: what is reserved covers what is used."""


class Meter:
    """What was used, as the provider would put it on a bill."""

    def __init__(self) -> None:
        self.requests = 0
        self.input = 0
        self.output = 0
        self.at_once = 0
        self.most_at_once = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def cost_usd(self, input_price: float, output_price: float) -> float:
        return (self.input * input_price + self.output * output_price) / 1e6


@asynccontextmanager
async def metering(meter: Meter) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length:\s*(\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                meter.at_once += 1
                meter.most_at_once = max(meter.most_at_once, meter.at_once)
                await asyncio.sleep(0.01)
                meter.at_once -= 1
                sent = _answer(meter, json.loads(body), len(body))
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % len(sent) + sent)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _answer(meter: Meter, asked: dict[str, Any], size: int) -> bytes:
    messages = asked["messages"]
    brief = next(_text(each) for each in messages if each["role"] == "user")
    replies = sum(each["role"] == "assistant" for each in messages)
    delta = _delta(brief, replies, messages, offered=bool(asked.get("tools")))
    usage = {"prompt_tokens": size // CHARS_PER_TOKEN, "completion_tokens": REPLY_TOKENS}
    meter.requests += 1
    meter.input += usage["prompt_tokens"]
    meter.output += usage["completion_tokens"]
    finish = "tool_calls" if "tool_calls" in delta else "stop"
    chunks = [
        {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"id": "r", "choices": [], "usage": usage | {"total_tokens": sum(usage.values())}},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"


def _delta(brief: str, replies: int, messages: list[dict[str, Any]], *, offered: bool) -> dict[str, Any]:
    level = brief.split()[0]
    early = any("ended early" in _text(each) for each in messages[-WIDE:] if each["role"] == "tool")
    if not offered:
        return {"role": "assistant", "content": f"{brief}: so far"}
    match level:
        case "root" | "mid" if replies == 0 or (level == "root" and early):
            below = "mid" if level == "root" else "leaf"
            return _calls(replies, "task", [{"brief": f"{below} {number} of {brief}"} for number in range(WIDE)])
        case "leaf" if replies < LEAF_STEPS:
            return _calls(replies, "ls", [{"path": "."}])
        case _:
            return {"role": "assistant", "content": f"{brief}: done"}


def _calls(replies: int, name: str, arguments: list[dict[str, str]]) -> dict[str, Any]:
    calls = [
        {
            "index": place,
            "id": f"call_{replies}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(each)},
        }
        for place, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
