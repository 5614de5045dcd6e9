"""The providers' own SDKs, reading recorded bodies from a server on loopback: a process of its own, for their imports
are heavy and their warnings are theirs.

Reads one JSON object a line, `{id, dialect, stream, status, content_type, body}` (the body in base64), and says for
each `{id, text, calls, usage, error}`: what a program would get from the SDK.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Said = dict[str, Any]
ASKED = [{"role": "user", "content": "x"}]


class Replies(BaseHTTPRequestHandler):
    """Answers whatever is asked below `/N/` with the N-th body."""

    protocol_version = "HTTP/1.1"
    bodies: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        reply = self.bodies[int(self.path.split("/")[1])]
        body = base64.b64decode(reply["body"])
        self.send_response(reply["status"])
        self.send_header("content-type", reply["content_type"])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass


def main() -> None:
    Replies.bodies = [json.loads(line) for line in sys.stdin]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replies)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    judges: dict[str, Callable[[str, bool], Said]] = {}
    for number, reply in enumerate(Replies.bodies):
        dialect = reply["dialect"]
        if dialect not in judges:
            judges[dialect] = JUDGES[dialect]()
        try:
            said = judges[dialect](f"{address}/{number}", reply["stream"])
        except Exception as error:  # noqa: BLE001 - whatever it is, a program that uses the SDK would get it
            said = {"error": type(error).__name__, "message": str(error)[:300]}
        print(json.dumps({"id": reply["id"], "text": "", "calls": [], "usage": None, "error": None, **said}))


def openai_chat() -> Callable[[str, bool], Said]:
    openai: Any = importlib.import_module("openai")
    streams: Any = importlib.import_module("openai.lib.streaming.chat")

    def judge(url: str, stream: bool) -> Said:
        client = openai.OpenAI(api_key="x", base_url=url, max_retries=0)
        reply = client.chat.completions.create(model="m", messages=ASKED, stream=stream)
        if stream:
            state, chunks = streams.ChatCompletionStreamState(), 0
            for chunk in reply:
                if chunk.choices is not None:  # its own accumulator cannot do without
                    state.handle_chunk(chunk)
                    chunks += 1
            if not chunks:
                return {}  # whoever walks the stream is told nothing, and of nothing
            reply = state.current_completion_snapshot
        choices = [choice for choice in reply.choices or () if not choice.index]
        message = choices[0].message if choices else None
        calls = [
            call.function if call.type != "custom" else call.custom for call in (message and message.tool_calls) or ()
        ]
        if message and message.function_call:
            calls.append(message.function_call)
        usage = reply.usage
        return {
            "text": _text(message and message.content),
            "calls": [(call.name, _parsed(getattr(call, "arguments", None))) for call in calls],
            "usage": usage and (usage.prompt_tokens, usage.completion_tokens),
        }

    return judge


def openai_responses() -> Callable[[str, bool], Said]:
    openai: Any = importlib.import_module("openai")

    def judge(url: str, stream: bool) -> Said:
        client = openai.OpenAI(api_key="x", base_url=url, max_retries=0)
        reply = client.responses.create(model="m", input="x", stream=stream)
        if stream:
            ends = ("response.completed", "response.incomplete", "response.failed")
            events = [event for event in reply if event.type in ends]
            if not events:
                return {}
            reply = events[-1].response
        calls = [item for item in reply.output if item.type == "function_call"]
        return {
            "text": reply.output_text,
            "calls": [(call.name, _parsed(call.arguments)) for call in calls],
            "usage": reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens),
        }

    return judge


def anthropic() -> Callable[[str, bool], Said]:
    sdk: Any = importlib.import_module("anthropic")

    def judge(url: str, stream: bool) -> Said:
        client = sdk.Anthropic(api_key="x", base_url=url, max_retries=0)
        if stream:
            with client.beta.messages.stream(model="m", max_tokens=9, messages=ASKED) as events:
                reply = events.get_final_message()
        else:
            reply = client.beta.messages.create(model="m", max_tokens=9, messages=ASKED)
        return {
            "text": "".join(block.text for block in reply.content if block.type == "text"),
            "calls": [(block.name, block.input) for block in reply.content if block.type == "tool_use"],
            "usage": reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens),
        }

    return judge


def gemini() -> Callable[[str, bool], Said]:
    genai: Any = importlib.import_module("google.genai")

    def judge(url: str, stream: bool) -> Said:
        client = genai.Client(api_key="x", http_options={"base_url": url})
        if stream:
            replies = list(client.models.generate_content_stream(model="m", contents="x"))
        else:
            replies = [client.models.generate_content(model="m", contents="x")]
        candidates = [reply.candidates[0] for reply in replies if reply.candidates]
        parts = [part for one in candidates if one.content for part in one.content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        counts = [reply.usage_metadata for reply in replies if reply.usage_metadata]
        return {
            "text": "".join(part.text for part in parts if part.text and not part.thought),
            "calls": [(call.name, call.args or {}) for call in calls],
            "usage": bool(counts) and (_last(counts, "prompt_token_count"), _last(counts, "candidates_token_count")),
        }

    return judge


def _last(counts: list[Any], name: str) -> int | None:
    said = [getattr(count, name) for count in counts if getattr(count, name) is not None]
    return said[-1] if said else None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(piece.get("text", "") for piece in content if isinstance(piece, dict))
    return content or ""


def _parsed(arguments: str | None) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


JUDGES: dict[str, Callable[[], Callable[[str, bool], Said]]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}

if __name__ == "__main__":
    main()
