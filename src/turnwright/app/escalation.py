"""Everything that whoever runs a provider needs in order to look into a failure, in one redacted zip (P23)."""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Sequence

import msgspec

from turnwright import __version__
from turnwright.app.kept_captures import CASSETTE, Captured, captured
from turnwright.app.models import PROFILES_FILE
from turnwright.app.route_profiles import RouteProfiles
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded, Unknown, encode_line
from turnwright.schema.masking import CREDENTIAL_HEADERS
from turnwright.views.fold import folded
from turnwright.views.metrics import MetricsState, encode_metrics, fold_metrics, metrics
from turnwright.views.text import plain
from turnwright.views.timeline import TimelineState, fold_timeline, timeline
from turnwright.views.trace import trace_lines
from turnwright.wire.capture import Cassette, read_cassette

MADE_AT = (1980, 1, 1, 0, 0, 0)
"""The same facts give the same bytes: a zip carries no time of its own."""
BODY_FILE_MAX = 16 * 1024 * 1024


async def vendor_kit(journal: Journal, loaded: Loaded, facts: Sequence[Recorded], step_id: str | None) -> bytes:
    """The zip. Everything in it was redacted before it was ever written."""
    chosen = [each for each in facts if step_id is None or _step_of(each) in (None, step_id)]
    attempts = [each async for each in captured(journal, chosen)]
    if not attempts:
        raise InputError(
            "There are no recorded bytes to hand over: no attempt here failed, or captures were off.",
            remedy="Name a failed conversation or step; capture: all keeps every attempt.",
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as kit:
        for name, content in _files(loaded, chosen, attempts).items():
            kit.writestr(zipfile.ZipInfo(name, MADE_AT), content)
    return out.getvalue()


def _files(loaded: Loaded, facts: Sequence[Recorded], attempts: Sequence[Captured]) -> dict[str, bytes]:
    files = {
        "README.txt": _readme(attempts).encode(),
        "timeline.txt": plain(trace_lines(timeline(folded(fold_timeline, TimelineState(), facts)))).encode(),
        "facts.ndjson": b"".join(encode_line(each) + b"\n" for each in facts),
        "metrics.json": encode_metrics(metrics(folded(fold_metrics, MetricsState(), facts))),
        "request_ids.txt": "".join(f"{each.seq} {each.ended.request_id or 'none'}\n" for each in attempts).encode(),
        "probes.json": msgspec.json.encode(_probes(loaded, {each.ended.route for each in attempts})),
    }
    for each in attempts:
        cassette = read_cassette(each.cassette)
        folder = f"attempts/{each.name}"
        files[f"{folder}/attempt{CASSETTE}"] = each.cassette
        files[f"{folder}/request_body.json"] = cassette.request.body
        files[f"{folder}/response_body.bin"] = b"".join(chunk.data for chunk in cassette.chunks)[:BODY_FILE_MAX]
        files[f"{folder}/headers.txt"] = _headers(cassette).encode()
        files[f"{folder}/reproduce.sh"] = _curl(cassette).encode()
    return files


def _step_of(recorded: Recorded) -> str | None:
    return None if isinstance(recorded.fact, Unknown) else recorded.fact.step_id


def _probes(loaded: Loaded, routes: set[str]) -> object:
    known = RouteProfiles(loaded.folders.state / PROFILES_FILE).all()
    return {route: profile for route, profile in known.items() if route in routes}


def _readme(attempts: Sequence[Captured]) -> str:
    lines = [f"Made by turnwright {__version__}. Credentials are masked in everything here.", ""]
    for each in attempts:
        fault = each.ended.fault
        lines.append(
            f"{each.name}: route {each.ended.route}, verdict {each.ended.verdict}, "
            f"status {fault.status if fault else 'none'}, {each.ended.timing.total_ms:.0f} ms, "
            f"{each.ended.bytes_in} bytes, request id {each.ended.request_id or 'none'}"
        )
        if fault:
            lines.append(f"  {fault.message}")
    lines += [
        "",
        "timeline.txt      what happened, with times, tokens and verdicts",
        "facts.ndjson      the same as data",
        "metrics.json      counts and times by step",
        "probes.json       what the route was shown to be able to do",
        "attempts/*/       the request, the response bytes with arrival times (attempt.cassette.ndjson), headers,",
        "                  and reproduce.sh: the request as one curl command; put the key into $API_KEY",
    ]
    return "\n".join(lines) + "\n"


def _headers(cassette: Cassette) -> str:
    request = cassette.request
    lines = [f"> {request.method} {request.url}", *(f"> {name}: {value}" for name, value in request.headers)]
    if cassette.head is not None:
        lines += [f"< {cassette.head.status}", *(f"< {name}: {value}" for name, value in cassette.head.headers)]
    lines.append(f"ended after {cassette.ended_ms:.0f} ms: {cassette.how or 'we hung up'} {cassette.detail}".rstrip())
    return "\n".join(lines) + "\n"


def _curl(cassette: Cassette) -> str:
    """The body comes from the file beside it: a shell takes only so long a line."""
    request = cassette.request
    words = ["curl", "--no-buffer", "--include", "-X", request.method]
    for name, value in request.headers:
        if name.lower() not in ("content-length", "host"):
            words += ["-H", _header_word(name, value)]
    words += ["--data-binary", "@request_body.json", shlex.quote(request.url)]
    return "#!/bin/sh\n# API_KEY must hold the key.\n" + " ".join(words) + "\n"


def _header_word(name: str, value: str) -> str:
    """Where the masked credential stood, the reader's own goes."""
    if name.lower() not in CREDENTIAL_HEADERS:
        return shlex.quote(f"{name}: {value}")
    scheme = f"{value.partition(' ')[0]} " if " " in value else ""
    return shlex.quote(f"{name}: {scheme}") + '"$API_KEY"'
