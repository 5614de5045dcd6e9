"""Spans as a document of OTLP's JSON encoding, which collectors read from files and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from turnwright.views.otel import OtelEvent, OtelSpan, Value

SERVICE = "turnwright"
INTERNAL, CLIENT = 1, 3
OK, ERROR = 1, 2


def otlp_pieces(spans: Sequence[OtelSpan], version: str) -> Iterator[bytes]:
    """Span by span, so that the document is never in memory beside what it is made of."""
    resource = {"attributes": _attributes(resource_of(version))}
    scope = {"name": SERVICE, "version": version}
    yield b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (
        msgspec.json.encode(resource),
        msgspec.json.encode(scope),
    )
    for place, span in enumerate(spans):
        yield (b"," if place else b"") + msgspec.json.encode(_span(span))
    yield b"]}]}]}"


def resource_of(version: str) -> dict[str, Value]:
    return {"service.name": SERVICE, "service.version": version}


def _span(span: OtelSpan) -> dict[str, Any]:
    around = {"parentSpanId": span.parent_id.hex()} if span.parent_id else {}
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **around,
        "name": span.name,
        "kind": CLIENT if span.client else INTERNAL,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "status": _status(span),
    }


def _status(span: OtelSpan) -> dict[str, Any]:
    if span.ok is None:
        return {}
    return {"code": OK} if span.ok else {"code": ERROR, "message": span.message}


def _event(event: OtelEvent) -> dict[str, Any]:
    return {"timeUnixNano": str(event.at_ns), "name": event.name, "attributes": _attributes(event.attributes)}


def _attributes(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case tuple():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
