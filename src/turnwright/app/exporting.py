"""A conversation in a form that others read. A format is a name, a line of help, and what makes its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from turnwright import __version__
from turnwright.app.reading import blobs_of
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded
from turnwright.views.atif import atif, encode_atif_pieces
from turnwright.views.document import document_lines
from turnwright.views.fold import folded
from turnwright.views.ir import encode_ir_pieces, ir
from turnwright.views.markdown import markdown
from turnwright.views.metrics import MetricsState, fold_metrics, metrics
from turnwright.views.otel import OtelSpan, otel_spans
from turnwright.views.otel_names import Names
from turnwright.views.otlp import otlp_pieces
from turnwright.views.spans import spans
from turnwright.views.transcript import Transcript, entries, fold_transcript


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to the user, of spans."""

    names: Names = "current"
    content: bool = False


class Format(msgspec.Struct, frozen=True):
    about: str
    written: Callable[[Journal, Sequence[Recorded], Choices], AsyncIterator[bytes]]
    """The pieces of the document, in order. The facts are one conversation's, from its first one on."""


async def _ir(journal: Journal, facts: Sequence[Recorded], _: Choices) -> AsyncIterator[bytes]:
    del journal
    for piece in encode_ir_pieces(ir(entries(folded(fold_transcript, Transcript(), facts)))):
        yield piece
    yield b"\n"


async def _markdown(journal: Journal, facts: Sequence[Recorded], _: Choices) -> AsyncIterator[bytes]:
    blobs = await blobs_of(journal, facts)
    for piece in markdown(entries(folded(fold_transcript, Transcript(), facts)), blob=blobs.get):
        yield piece.encode()


async def _atif(journal: Journal, facts: Sequence[Recorded], _: Choices) -> AsyncIterator[bytes]:
    blobs = await blobs_of(journal, facts)
    shown = entries(folded(fold_transcript, Transcript(), facts))
    trajectory = atif(shown, metrics(folded(fold_metrics, MetricsState(), facts)), blobs.get, __version__)
    if not trajectory.steps:
        raise InputError(
            f"Nothing was said in {facts[0].conversation_id}, and a trajectory has at least one step.",
            remedy="Export it once it has a turn.",
        )
    for piece in encode_atif_pieces(trajectory):
        yield piece
    yield b"\n"


def _document(journal: Journal, facts: Sequence[Recorded], _: Choices) -> AsyncIterator[bytes]:
    return document_lines(facts, journal.blob, __version__)


async def _otel(journal: Journal, facts: Sequence[Recorded], choices: Choices) -> AsyncIterator[bytes]:
    del journal
    for piece in otlp_pieces(_spans(facts, choices), __version__):
        yield piece
    yield b"\n"


def _spans(facts: Sequence[Recorded], choices: Choices) -> list[OtelSpan]:
    return otel_spans(spans(facts), choices.names, content=choices.content)


async def sent(facts: Sequence[Recorded], endpoint: str, choices: Choices) -> int:
    """How many spans the collector took."""
    from turnwright.app.collector import send

    return await asyncio.to_thread(send, _spans(facts, choices), endpoint, __version__)


FORMATS: dict[str, Format] = {
    "turnwright": Format("everything the journal holds of it, for turnwright import", _document),
    "ir": Format("one JSON document, versioned, for programs", _ir),
    "atif": Format("a trajectory for harbor and others (ATIF)", _atif),
    "otel": Format("spans, as a document or to a collector (--endpoint)", _otel),
    "markdown": Format("the transcript, for people", _markdown),
}
