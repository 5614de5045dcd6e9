"""Spans at a collector: a server that takes OTLP over HTTP and reads it with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from turnwright.cli.main import main

SCRIPT = """
- text: Let me look.
  calls: [{name: ls}, {name: read, arguments: {path: nowhere.txt}}]
  usage: {input: 100, output: 20}
- {fault: {is: http_error, status: 529, retry_after_s: 0.01}}
- {text: All is done., usage: {input: 150, output: 5, cache_read: 90}}
"""


class Collector:
    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        self.status = 200
        taken = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                taken.requests.append(request)
                taken.paths.append(self.path)
                self.send_response(taken.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                del args

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [
            _plain(span)
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def _plain(span: Any) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **({"parentSpanId": span.parent_span_id.hex()} if span.parent_span_id else {}),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _values(span.attributes),
        "events": [
            {"timeUnixNano": str(each.time_unix_nano), "name": each.name, "attributes": _values(each.attributes)}
            for each in span.events
        ],
        "status": {
            **({"code": span.status.code} if span.status.code else {}),
            **({"message": span.status.message} if span.status.code == 2 else {}),
        },
    }


def _values(pairs: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [each.string_value for each in value.values] if kind == "array_value" else value
    return found


def _of_document(pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        [(kind, value)] = pair["value"].items()
        if kind == "arrayValue":
            value = [each["stringValue"] for each in value["values"]]
        found[pair["key"]] = int(value) if kind == "intValue" else value
    return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, args=(0.01,))
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()
    collector.server.server_close()


@pytest.fixture(autouse=True)
def conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    assert main(["run", "look around", "--model", f"scripted/{tmp_path / 'script.yaml'}", "--output", "json"]) == 0
    said: str = json.loads(capfd.readouterr().out)["conversation_id"]
    return said


def test_a_turn_is_a_trace_at_the_collector(
    collector: Collector, conversation: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "last", "--format", "otel", "--endpoint", collector.url]) == 0
    assert "spans sent." in capfd.readouterr().err
    assert collector.paths == ["/v1/traces"]
    spans = collector.spans
    assert [span["name"] for span in spans] == [
        "invoke_agent turnwright",
        "step 0",
        "chat scripted",
        "execute_tool ls",
        "execute_tool read",
        "step 1",
        "chat scripted",
        "chat scripted",
    ]
    by_id = {span["spanId"]: span for span in spans}
    assert [by_id[span["parentSpanId"]]["name"] for span in spans[1:]] == [
        "invoke_agent turnwright",
        *["step 0"] * 3,
        "invoke_agent turnwright",
        *["step 1"] * 2,
    ]
    assert len({span["traceId"] for span in spans}) == 1
    assert all(int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) > 10**18 for span in spans)
    turn, _, chat, ls, read, _, failed, again = (span["attributes"] for span in spans)
    assert {name: turn[name] for name in turn if name.startswith("gen_ai.")} == {
        "gen_ai.conversation.id": conversation,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "turnwright",
        "gen_ai.agent.version": turn["gen_ai.agent.version"],
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 250,
        "gen_ai.usage.output_tokens": 25,
        "gen_ai.usage.cache_read.input_tokens": 90,
    }
    assert (turn["turnwright.reason"], turn["turnwright.steps"]) == ("stop", 2)
    assert (chat["gen_ai.operation.name"], chat["gen_ai.usage.input_tokens"]) == ("chat", 100)
    assert isinstance(chat["gen_ai.response.finish_reasons"], list)
    assert (ls["gen_ai.tool.name"], ls["turnwright.outcome"], ls["turnwright.effect"]) == ("ls", "ok", "reads")
    assert (read["error.type"], spans[4]["status"]) == ("failed", {"code": 2, "message": "failed"})
    assert (failed["error.type"], failed["turnwright.verdict"], failed["turnwright.retry"]) == (
        "529",
        "http_error",
        False,
    )
    assert (again["turnwright.attempt"], again["turnwright.retry"]) == (2, True)
    assert "look around" not in str(spans) and "All is done" not in str(spans)


@pytest.mark.parametrize("names", ["current", "legacy", "openinference"])
def test_the_document_says_what_the_collector_hears(
    names: str, collector: Collector, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "last", "--format", "otel", "--names", names, "--content"]
    assert main([*words, "--endpoint", f"{collector.url}/somewhere/else"]) == 0
    assert collector.paths == ["/somewhere/else"]
    capfd.readouterr()
    assert main(words) == 0
    [resource] = json.loads(capfd.readouterr().out)["resourceSpans"]
    assert {pair["key"] for pair in resource["resource"]["attributes"]} == {"service.name", "service.version"}
    written = [
        {
            **span,
            "attributes": _of_document(span["attributes"]),
            "events": [{**event, "attributes": _of_document(event["attributes"])} for event in span["events"]],
        }
        for span in resource["scopeSpans"][0]["spans"]
    ]
    assert written == collector.spans
    turn, _, chat, ls, *_ = (span["attributes"] for span in written)
    table: dict[str, list[tuple[dict[str, Any], str, Any]]] = {
        "current": [
            (chat, "gen_ai.provider.name", "scripted"),
            (ls, "gen_ai.tool.call.arguments", "{}"),
            (turn, "turnwright.output", "All is done."),
        ],
        "legacy": [
            (chat, "gen_ai.system", "scripted"),
            (chat, "gen_ai.usage.prompt_tokens", 100),
            (chat, "gen_ai.completion", "Let me look."),
            (chat, "gen_ai.provider.name", None),
        ],
        "openinference": [
            (turn, "openinference.span.kind", "AGENT"),
            (chat, "openinference.span.kind", "LLM"),
            (chat, "llm.token_count.total", 120),
            (ls, "tool.name", "ls"),
            (turn, "input.value", "look around"),
            (chat, "gen_ai.system", None),
        ],
    }
    assert [attributes.get(name) for attributes, name, _ in table[names]] == [value for *_, value in table[names]]
    if names == "current":
        [message] = json.loads(chat["gen_ai.output.messages"])
        assert [part["type"] for part in message["parts"]] == ["text", "tool_call", "tool_call"]


def test_a_collector_that_refuses_is_named(collector: Collector, capfd: pytest.CaptureFixture[str]) -> None:
    collector.status = 400
    assert main(["export", "last", "--format", "otel", "--endpoint", collector.url]) == 59
    said = capfd.readouterr().err
    assert f"The collector at {collector.url}/v1/traces did not take the spans" in said and "400" in said
    assert main(["export", "last", "--format", "otel", "--endpoint", "localhost:4318"]) == 42
    assert main(["export", "last", "--format", "ir", "--endpoint", collector.url]) == 2
    assert main(["export", "last", "--format", "otel", "--endpoint", collector.url, "--to", "x"]) == 2
