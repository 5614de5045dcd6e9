"""The files of a run's folder (V1), made from its facts in one pass. Whoever writes them decides where and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    Recorded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    encode_line,
)
from turnwright.views.faults import Captures, FaultRecord, failed, fault_record
from turnwright.views.fold import Blob, folded
from turnwright.views.ir import encode_ir_pieces, ir, ir_assistant
from turnwright.views.markdown import markdown
from turnwright.views.metrics import MetricsState, encode_metrics, fold_metrics, metrics
from turnwright.views.timeline import TimelineState, fold_timeline, timeline
from turnwright.views.transcript import Call, Replied, Resulted, Transcript, entries, fold_transcript

FOLDER_VERSION = 1
_CHUNK_BYTES = 262_144

Piece: TypeAlias = tuple[str, bytes]
"""A relative path and bytes of that file, in order: a path that comes again continues its file."""


def run_folder(
    facts: Iterable[Recorded],
    run: Mapping[str, object],
    *,
    diff: bytes | None = None,
    blob: Blob | None = None,
    captures: Captures | None = None,
) -> Iterator[Piece]:
    """`run` is what `run.json` says: resolved config, versions, seed. Facts may come from a cursor: they are read once,
    and only what the final documents need is kept."""
    yield "run.json", _pretty({"folder_version": FOLDER_VERSION, **run})
    transcript, counted = Transcript(), MetricsState()
    lines: list[bytes] = []
    step: list[Recorded] = []
    held_bytes, number = 0, 0
    for recorded in facts:
        transcript, counted = fold_transcript(transcript, recorded), fold_metrics(counted, recorded)
        text = encode_line(recorded) + b"\n"
        lines.append(text)
        held_bytes += len(text)
        if held_bytes >= _CHUNK_BYTES:
            yield "facts.ndjson", b"".join(lines)
            lines, held_bytes = [], 0
        if step and isinstance(recorded.fact, StepStarted | TurnStarted | TurnEnded):
            yield from _step_files(number, step, blob, captures)
            step, number = [], number + 1
        if step or isinstance(recorded.fact, StepStarted):
            step.append(recorded)
    if step:
        yield from _step_files(number, step, blob, captures)
    yield "facts.ndjson", b"".join(lines)
    for document in markdown(entries(transcript), blob=blob):
        yield "conversation.md", document.encode()
    for piece in encode_ir_pieces(ir(entries(transcript))):
        yield "ir.json", piece
    yield "metrics.json", encode_metrics(metrics(counted))
    if diff is not None:
        yield "diff.patch", diff


def _step_files(number: int, step: list[Recorded], blob: Blob | None, captures: Captures | None) -> Iterator[Piece]:
    """`number` counts the steps of the whole run, from 0: a step's index starts anew in every turn."""
    folder = f"steps/{number}"
    yield f"{folder}/step.json", _pretty(_step_record(step))
    calls: list[Call] = []
    for entry in entries(folded(fold_transcript, Transcript(), step)):
        match entry:
            case Replied():
                calls += entry.calls
                if entry.verdict is not None:
                    yield f"{folder}/reply.json", _pretty(ir_assistant(entry))
            case Resulted():
                calls.append(entry.call)
            case _:
                pass
    for place, call in enumerate(calls):
        yield from _call_files(f"{folder}/{place:02d}-{_file_name(call.name)}", call, blob)
    records = [
        fault_record(recorded, recorded.fact, captures)
        for recorded in step
        if isinstance(recorded.fact, AttemptEnded) and failed(recorded.fact.verdict)
    ]
    if records:
        yield f"errors/step_{number}.json", _pretty(_errors(records))


def _step_record(step: list[Recorded]) -> object:
    """The step as the timeline has it, times from its own start."""
    first = step[0]
    begun = TurnStarted(turn_id=first.fact.turn_id if isinstance(first.fact, StepStarted) else None, text="")
    opening = msgspec.structs.replace(first, fact=begun)
    whole = timeline(folded(fold_timeline, TimelineState(), [opening, *step]))
    return {"turn_id": begun.turn_id, "started_at": first.at, **msgspec.to_builtins(whole.turns[0].steps[0])}


def _call_files(path: str, call: Call, blob: Blob | None) -> Iterator[Piece]:
    """What was asked and what came of it; the output apart, whole where it can be had."""
    output = _output(call, blob)
    record = msgspec.to_builtins(msgspec.structs.replace(call, output="", images=()))
    yield f"{path}.json", _pretty({**record, "output_file": None if output is None else f"{path}.out"})
    if output is not None:
        yield f"{path}.out", output


def _output(call: Call, blob: Blob | None) -> bytes | None:
    if call.output_blob is None:
        return call.output.encode("utf-8", "replace") if call.output else None
    return blob(call.output_blob.sha256) if blob is not None else None


def _errors(records: list[FaultRecord]) -> object:
    """The last fault, which is the one that decided, and all of them."""
    return {**msgspec.to_builtins(records[-1]), "attempts": records}


def _file_name(name: str) -> str:
    """A tool's name may be anything the model came up with; a path may not."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40] or "tool"


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
