"""The official SDKs as judges: what they make of recorded bodies and of faulty ones, beside what we make of them.

    python3 dev.py judges [--every N]

Prints every difference with its explanation, and leaves with 1 where there is one without.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

sys.path.append(str(Path(__file__).resolve().parents[1] / "app"))

from recorded_traffic import WIRE, lines_of

from turnwright.app.decode import Decoded, Record, decode_record
from turnwright.providers.codec import Dialect
from turnwright.testing.dialects.said import SaidError
from turnwright.testing.fault_table.case import Setting

JUDGED: tuple[Dialect, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")
"""Ollama has no judge among them."""
PROCESS = Path(__file__).with_name("judge_process.py")


class Body(msgspec.Struct, frozen=True):
    """A response for both sides to read."""

    record: Record
    framing: str = ""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What a program would get. `error` is empty where it is told of none."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    usage: tuple[int | None, int | None] | None = None
    error: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    body: Body
    ours: Decoded
    field: str
    said: Any
    judged: Any
    why: str
    """Empty: nobody can explain it."""


def explained(body: Body, ours: Decoded, field: str, said: Any, judged: Any, error: str) -> str:
    """Why the SDK says something else, where that is known: all of it is what our side names and theirs does not."""
    if field == "calls" and ours.verdict in ("length", "malformed_call", "truncated"):
        return f"a call that was cut: ours names it ({ours.verdict}), theirs gives it out as whole"
    if body.framing == "json-array" and error:
        return "a stream of Gemini's that is one array: theirs reads event streams alone"
    if field == "calls" and not said and all(not name for name, _ in judged):
        return "a call with neither name, id nor arguments: nobody could run it"
    if field == "usage" and judged is None and said is not None:
        return "its last chunk says `usage: null`, and their accumulator forgets the account that came before"
    if field == "error" and error and not said:
        return f"theirs cannot read it ({error})"
    return ""


def recorded(dialects: Iterable[Dialect] = JUDGED, every: int = 1) -> Iterator[Body]:
    for dialect in dialects:
        for number, line in enumerate(lines_of(dialect)):
            if number % every == 0:
                yield Body(msgspec.json.decode(line, type=Record), json.loads(line)["framing"])


def compared(bodies: Sequence[Body]) -> list[Difference]:
    differences = []
    for body, judged in zip(bodies, judgements(bodies), strict=True):
        ours = decode_record(body.record)
        mine = _opinion(ours)
        if mine.error and judged.error:
            continue  # both say that it failed; how is ours to name
        for field in ("text", "calls", "usage", "error"):
            said, told = getattr(mine, field), getattr(judged, field)
            if field == "error":
                said, told = bool(said), bool(told)
            if said != told:
                why = explained(body, ours, field, said, told, judged.error)
                differences.append(Difference(body=body, ours=ours, field=field, said=said, judged=told, why=why))
    return differences


def _opinion(decoded: Decoded) -> Opinion:
    reported = decoded.usage_reported
    return Opinion(
        text=decoded.text,
        calls=tuple((call.name, call.arguments) for call in decoded.tool_calls),
        usage=(reported.input, reported.output) if reported else None,
        error=decoded.error.message if decoded.error else "",
    )


def judgements(bodies: Sequence[Body]) -> list[Opinion]:
    """In a process of its own, without the caller's proxies."""
    asked = []
    for number, body in enumerate(bodies):
        record = body.record
        headers = {name.lower(): str(value) for name, value in (record.response_headers or {}).items()}
        kind = headers.get("content-type") or ("text/event-stream" if record.stream else "application/json")
        asked.append(
            {
                "id": number,
                "dialect": record.dialect,
                "stream": record.stream,
                "status": record.status,
                "content_type": kind,
                "body": base64.b64encode(record.bytes()).decode(),
            }
        )
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROCESS)],
        input="".join(json.dumps(each) + "\n" for each in asked).encode(),
        stdout=subprocess.PIPE,
        env=env,
        timeout=900,
        check=True,
    )
    return [_judged(json.loads(line)) for line in done.stdout.splitlines()]


def _judged(said: dict[str, Any]) -> Opinion:
    usage = said["usage"]
    return Opinion(
        text=said["text"],
        calls=tuple((name, arguments) for name, arguments in said["calls"]),
        usage=(usage[0], usage[1]) if usage else None,
        error=said["error"] or "",
    )


# What is wrong on the wire, and what each side calls it.


def faulty(dialect: Dialect) -> Iterator[tuple[str, Body]]:
    """As streams and as documents: a page, blanks, nothing, only an end mark, a cut in text and in arguments, an error
    in the middle."""
    for streaming in (True, False):
        form = "stream" if streaming else "document"
        setting = Setting(dialect=dialect, streaming=streaming, tools=True)
        kind = setting.content_type
        plain: list[tuple[str, str, bytes]] = [
            ("a page, called a page", "text/html", b"<!doctype html><title>Sorry</title>"),
            ("a page, called an answer", kind, b"<!doctype html><title>Sorry</title>"),
            ("blanks", kind, b"  \n\n  "),
            ("nothing", kind, b""),
        ]
        if streaming:
            plain.append(("only [DONE]", kind, b"data: [DONE]\n\n"))
            plain.append(("only comments", kind, b": keepalive\n\n" * 3))
            frames = setting.frames()
            last = {name: max(at for at, one in enumerate(frames) if one.kind == name) for name in ("text", "call")}
            plain.append(("cut after text", kind, b"".join(setting.pieces(frames[: last["text"] + 1]))))
            stage = [at for at, one in enumerate(frames) if one.kind == "arguments"] or [last["call"]]
            plain.append(("cut in a call", kind, b"".join(setting.pieces(frames[: stage[0] + 1]))))
            error = setting.speaker.error_frame(SaidError(kind="overloaded", message="Overloaded.", status=529))
            broken = setting.pieces([*frames[: last["text"] + 1], error])
            plain.append(("an error in the middle", kind, b"".join(broken)))
        else:
            body = setting.body()
            plain.append(("cut in the middle", kind, body[: len(body) // 2]))
            error_body = setting.speaker.error_body(SaidError(kind="overloaded", message="Overloaded.", status=529))
            plain.append(("an error, called a success", kind, msgspec.json.encode(error_body)))
        for name, content_type, body in plain:
            record = Record(
                dialect=dialect,
                id=f"{name} ({form})",
                stream=streaming,
                response_headers={"content-type": content_type},
                body=body.decode(),
            )
            yield name, Body(record)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A faulty body, our verdict on it, and what an SDK makes of it."""

    body: Body
    verdict: str
    judged: Opinion

    @property
    def is_missed(self) -> bool:
        """A program is told of no fault."""
        return not self.judged.error


def faults() -> list[Fault]:
    bodies = [body for dialect in JUDGED for _, body in faulty(dialect)]
    judged = judgements(bodies)
    return [
        Fault(body=body, verdict=decode_record(body.record).verdict, judged=opinion)
        for body, opinion in zip(bodies, judged, strict=True)
    ]


# The table.


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every N-th record (default: all)")
    asked = parser.parse_args(words)
    unexplained = 0
    if WIRE.is_dir():
        for dialect in JUDGED:
            bodies = list(recorded([dialect], asked.every))
            found = compared(bodies)
            unexplained += sum(not each.why for each in found)
            print("\n".join(rows(dialect, len(bodies), found)), flush=True)
    else:
        print(f"no recorded traffic at {WIRE}; TURNWRIGHT_TEST_SHARED names the folder of wire/")
    print("\n".join(fault_rows(faults())))
    return 1 if unexplained else 0


def rows(dialect: str, count: int, found: Sequence[Difference]) -> list[str]:
    differing = {each.body.record.id for each in found}
    lines = [f"{dialect:<18}{count:>5} bodies, {count - len(differing):>5} read alike, {len(differing):>3} not"]
    for each in found:
        why = each.why or "NOT EXPLAINED"
        shown = f"ours {_short(each.said)}, theirs {_short(each.judged)}"
        lines.append(f"  {each.body.record.id} {each.field}: {shown}\n    {why}")
    return lines


def fault_rows(found: Sequence[Fault]) -> list[str]:
    lines = ["", f"{'dialect':<18}{'fault':<38}{'our verdict':<16}the SDK"]
    for each in found:
        opinion = each.judged
        told = f"raises {opinion.error}" if opinion.error else f"no fault: {_short(opinion.text or opinion.calls)}"
        lines.append(f"{each.body.record.dialect:<18}{each.body.record.id:<38}{each.verdict:<16}{told}")
    missed = sum(each.is_missed for each in found)
    return [*lines, f"{len(found)} faulty bodies: ours names all, the SDKs let {missed} pass as answers"]


def _short(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
