"""The floor: an agent loop that does what any must, and nothing else.

It posts the same requests over the same HTTP client, parses the same streams with the same library, encodes its whole
history anew for each step, calls the same tools, and keeps nothing: no journal, no limits, no capture, no retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.schema.settings import Timers
from turnwright.wire.exchange import Exchange
from turnwright.wire.http import HttpClient, Request

Tool = Callable[..., Awaitable[str]]
Heard = Callable[[str], object]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice]


class Reply(msgspec.Struct):
    text: list[str] = []
    ids: list[str] = []
    names: list[str] = []
    arguments: list[list[str]] = []


_decode = msgspec.json.Decoder(_Event).decode
_encode = msgspec.json.Encoder().encode
_CLOCK, _TIMERS = SystemClock(), Timers()


class BareAgent:
    """`url` is that of the completions, `head` whatever a request holds besides its messages."""

    def __init__(
        self, client: HttpClient, url: str, head: Mapping[str, Any], system: str, tools: Mapping[str, Tool]
    ) -> None:
        self._client = client
        self._request = Request(
            method="POST",
            url=url,
            headers=(
                ("Accept", "text/event-stream"),
                ("Accept-Encoding", "identity"),
                ("Content-Type", "application/json"),
            ),
        )
        self._head = head
        self._system = system
        self._tools = tools

    async def run(
        self, task: str, heard: Heard = lambda text: None, stepped: Callable[[], object] = lambda: None
    ) -> str:
        """`heard` gets every piece of text as it comes, `stepped` is called before each request."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self._system},
            {"role": "user", "content": task},
        ]
        while True:
            stepped()
            reply = await self._post(_encode({**self._head, "messages": messages}), heard)
            text = "".join(reply.text)
            if not reply.ids:
                return text
            called = ["".join(pieces) for pieces in reply.arguments]
            messages.append(
                {
                    "role": "assistant",
                    "content": text or None,
                    "tool_calls": [
                        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                        for call_id, name, arguments in zip(reply.ids, reply.names, called, strict=True)
                    ],
                }
            )
            results = await self._act(reply.names, called)
            messages += [
                {"role": "tool", "tool_call_id": call_id, "content": result}
                for call_id, result in zip(reply.ids, results, strict=True)
            ]

    async def _act(self, names: Sequence[str], called: Sequence[str]) -> Sequence[str]:
        calls = [self._tools[name](**msgspec.json.decode(text)) for name, text in zip(names, called, strict=True)]
        return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)

    async def _post(self, body: bytes, heard: Heard) -> Reply:
        request = msgspec.structs.replace(self._request, body=body)
        exchange = Exchange(self._client, request, asked="sse", clock=_CLOCK, timers=_TIMERS)
        reply = Reply([], [], [], [])
        while (frames := await exchange.read()) is not None:
            for frame in frames:
                if frame.data != b"[DONE]":
                    _add(reply, _decode(frame.data), heard)
        assert exchange.ended is not None and exchange.ended.how == "eof", exchange.ended
        return reply


def _add(reply: Reply, event: _Event, heard: Heard) -> None:
    for choice in event.choices:
        delta = choice.delta
        if delta.content:
            reply.text.append(delta.content)
            heard(delta.content)
        for call in delta.tool_calls or ():
            function = call.function or _Function()
            if call.id:
                reply.ids.append(call.id)
                reply.names.append(function.name or "")
                reply.arguments.append([])
            if function.arguments:
                reply.arguments[call.index].append(function.arguments)
