"""A provider of several models on a real socket. Each model says its replies one after the other, the last one for
ever; a number is a status with which it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Reply: TypeAlias = str | int | dict[str, Any]
"""Text, a status, or a call as `{name: arguments}`."""


class Provider:
    def __init__(self, models: Mapping[str, Sequence[Reply]]) -> None:
        self._models = {name: list(replies) for name, replies in models.items()}
        self.asked: list[dict[str, Any]] = []
        """Every request, in order."""
        self.url = ""

    @property
    def models(self) -> list[str]:
        return [body["model"] for body in self.asked]

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(body)
        replies = self._models[body["model"]]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, int):
            return reply, {"error": {"message": "out of order", "code": reply}}
        message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else ""}
        if isinstance(reply, dict):
            message["tool_calls"] = [
                {
                    "id": f"call_{len(self.asked)}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for place, (name, arguments) in enumerate(reply.items())
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if isinstance(reply, dict) else "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return 200, {"id": "r", "object": "chat.completion", "choices": [choice], "usage": usage}


@contextmanager
def provider(**models: Sequence[Reply]) -> Iterator[Provider]:
    serving = Provider(models)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = serving.answer(body)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    serving.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
