"""Spans on their way to a collector, over OTLP/HTTP. The one place that names OpenTelemetry's own library (an extra).

Nothing is instrumented and nothing global is set: recorded spans are handed to its exporter, which encodes, sends and
tries again. What it wants besides the address (headers, certificates) it takes from its usual `OTEL_*` variables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnwright.schema.errors import ConfigError, InputError, ProviderError
from turnwright.views.otel import OtelSpan
from turnwright.views.otlp import SERVICE, resource_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

BATCH = 512
TIMEOUT_S = 10
PATH = "/v1/traces"


def send(spans: Sequence[OtelSpan], endpoint: str, version: str) -> int:
    """Blocking. How many were taken; a collector that does not take them is an error that names it."""
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigError(
            "Sending spans needs OpenTelemetry's exporter, which is not installed.",
            remedy="Install it: pip install 'turnwright[otel]'; or write a document with --to.",
        )
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    address = address_of(endpoint)
    heard = _Heard()
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http")
    logger.addHandler(heard)
    propagates, logger.propagate = logger.propagate, False
    exporter = OTLPSpanExporter(endpoint=address, timeout=TIMEOUT_S, compression=Compression.Gzip)
    try:
        for batch in _batches(spans):
            if exporter.export([_readable(span, version) for span in batch]) is not SpanExportResult.SUCCESS:
                raise ProviderError(
                    f"The collector at {address} did not take the spans{heard.said}.",
                    remedy="Check the address, and OTEL_EXPORTER_OTLP_HEADERS where it wants a key.",
                )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
        logger.removeHandler(heard)
        logger.propagate = propagates
    return len(spans)


def address_of(endpoint: str) -> str:
    """A bare address is that of a collector, which takes traces at a path that everybody knows."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{endpoint!r} is no address of a collector.", remedy="Example: http://localhost:4318")
    return endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{PATH}"


class _Heard(logging.Handler):
    """What the exporter complains about, to be said in our own error instead of beside it."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = f": {' '.join(record.getMessage().split())[:300].rstrip('.')}"


def _batches(spans: Sequence[OtelSpan]) -> Iterator[Sequence[OtelSpan]]:
    return (spans[at : at + BATCH] for at in range(0, len(spans), BATCH))


def _readable(span: OtelSpan, version: str) -> ReadableSpan:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: bytes) -> SpanContext:
        return SpanContext(
            trace_id=int.from_bytes(span.trace_id, "big"),
            span_id=int.from_bytes(span_id, "big"),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )

    codes = {None: StatusCode.UNSET, True: StatusCode.OK, False: StatusCode.ERROR}
    return ReadableSpan(
        name=span.name,
        context=context(span.span_id),
        parent=context(span.parent_id) if span.parent_id else None,
        resource=Resource(dict(resource_of(version))),
        attributes=span.attributes,
        events=[Event(event.name, event.attributes, event.at_ns) for event in span.events],
        kind=SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
        status=Status(codes[span.ok], span.message if span.ok is False else None),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(SERVICE, version),
    )
