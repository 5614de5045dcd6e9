from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from fact_script import Script, call
from golden_files import check
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import TEST, demo, interrupted, troubled

from turnwright.schema.facts import AttemptFault, BlobRef, Recorded, encode_line
from turnwright.schema.verdicts import ErrorKind, Verdict
from turnwright.views.faults import Capture, failed, hint
from turnwright.views.fold import Blob
from turnwright.views.run_folder import run_folder

RUN: dict[str, object] = {"turnwright": "0.1.0", "seed": 7, "config": {"model": "local/small"}}


def files(script: Script, **options: Any) -> dict[str, bytes]:
    """As the app writes them: a path that comes again continues its file."""
    written: dict[str, bytes] = {}
    for path, data in run_folder(script, RUN, **options):
        written[path] = written.get(path, b"") + data
    return written


def test_what_a_run_folder_holds() -> None:
    written = files(demo(), diff=b"--- a/src/adder.py\n")
    assert sorted(written) == [
        "conversation.md",
        "diff.patch",
        "errors/step_1.json",
        "facts.ndjson",
        "ir.json",
        "metrics.json",
        "run.json",
        "steps/0/00-bash.json",
        "steps/0/00-bash.out",
        "steps/0/01-read.json",
        "steps/0/01-read.out",
        "steps/0/reply.json",
        "steps/0/step.json",
        "steps/1/00-edit.json",
        "steps/1/00-edit.out",
        "steps/1/reply.json",
        "steps/1/step.json",
        "steps/2/00-bash.json",
        "steps/2/00-bash.out",
        "steps/2/reply.json",
        "steps/2/step.json",
        "steps/3/reply.json",
        "steps/3/step.json",
    ]
    assert msgspec.json.decode(written["run.json"]) == {"folder_version": 1, **RUN}
    assert written["facts.ndjson"].splitlines() == [encode_line(recorded) for recorded in demo()]
    assert written["steps/0/00-bash.out"] == b"F.\nE  assert 1 == 3\n1 failed"
    check("demo.errors-step_1.json", written["errors/step_1.json"])
    check("demo.step-1.json", written["steps/1/step.json"])
    check("demo.reply-0.json", written["steps/0/reply.json"])
    check("demo.tool.json", written["steps/0/00-bash.json"])


def test_no_diff_no_file() -> None:
    assert "diff.patch" not in files(interrupted())


def test_steps_are_numbered_over_the_whole_run() -> None:
    script = Script()
    for _ in range(2):
        script.turn().step().asked().answered().step().asked().failed().ended()
    written = files(script)
    assert [path for path in sorted(written) if path.endswith("step.json")] == [
        f"steps/{n}/step.json" for n in range(4)
    ]
    assert [path for path in sorted(written) if path.startswith("errors")] == [
        "errors/step_1.json",
        "errors/step_3.json",
    ]
    assert msgspec.json.decode(written["steps/3/step.json"])["step_id"] == "t_2#1"


def test_facts_are_read_once_and_written_as_they_come() -> None:
    """A cursor over a large journal is never in memory as a whole."""
    script = Script().turn()
    for number in range(30):
        tool = call(number)
        script.step().asked().answered().replied("", tool).began(tool).finished(tool, "x" * 30_000)
    read = 0

    def cursor() -> Iterator[Recorded]:
        nonlocal read
        for recorded in script:
            read += 1
            yield recorded

    first = next(read for path, _ in run_folder(cursor(), RUN) if path == "facts.ndjson")
    assert 0 < first < len(script.recorded) / 2
    assert files(script)["facts.ndjson"] == b"".join(encode_line(each) + b"\n" for each in script)


@pytest.mark.parametrize(
    ("blob", "output"), [(lambda sha256: b"\xffwhole", b"\xffwhole"), (None, None), (lambda sha256: None, None)]
)
def test_a_payload_stored_apart_is_written_whole_where_it_can_be_had(blob: Blob | None, output: bytes | None) -> None:
    ref = BlobRef(sha256="ab" * 32, size_bytes=6)
    script = Script().turn().step().asked().answered().replied("", TEST).began(TEST).finished(TEST, output_blob=ref)
    written = files(script, blob=blob)
    assert written.get("steps/0/00-bash.out") == output
    record = msgspec.json.decode(written["steps/0/00-bash.json"])
    assert record["output_file"] == (None if output is None else "steps/0/00-bash.out")
    assert record["output_blob"] == {"sha256": "ab" * 32, "size_bytes": 6}


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_tool_name_leaves_the_folder(name: str) -> None:
    tool = call(1, name)
    for path in files(Script().turn().step().asked().answered().replied("", tool).finished(tool, "x")):
        assert all(part not in ("", ".", "..") for part in path.split("/"))
        assert path.isascii()
        assert len(path) < 80


def test_a_fault_with_what_was_captured() -> None:
    capture = Capture(
        headers=(("Content-Type", "text/html"), ("Set-Cookie", "a"), ("set-cookie", "b")), body=b"<h1>" + b"x" * 70_000
    )
    fault = AttemptFault(message="a web page came", status=200)
    script = Script().turn().step().asked().failed(fault=fault, verdict="interstitial", request_id="req_1")
    script.asked(2).failed(2)

    def captures(step_id: str, attempt: int) -> Capture | None:
        return capture if (step_id, attempt) == ("t_1#0", 1) else None

    record = msgspec.json.decode(files(script, captures=captures)["errors/step_0.json"])
    assert (record["attempt"], record["class"], record["headers"], record["body_base64"]) == (
        2,
        "http_error",
        None,
        None,
    )
    first = record["attempts"][0]
    assert (first["class"], first["status"], first["request_id"]) == ("interstitial", 200, "req_1")
    assert first["headers"] == {"content-type": ["text/html"], "set-cookie": ["a", "b"]}
    assert first["html_excerpt"] == "<h1>" + "x" * 1_996
    assert first["raw_excerpt"] is None
    assert b64decode(first["body_base64"]) == capture.body[:65_536]
    assert "base URL" in first["hint"]


def test_an_empty_reply_is_a_fault_too() -> None:
    script = Script().turn().step().asked().answered(verdict="empty").asked(2).answered(2).replied("hello")
    assert msgspec.json.decode(files(script)["errors/step_0.json"])["class"] == "empty"


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_every_failure_has_a_hint(verdict: Verdict) -> None:
    assert hint(verdict) or not failed(verdict)
    assert all(hint(verdict, kind) for kind in get_args(ErrorKind))


def test_a_troubled_run_is_written_whole() -> None:
    written = files(troubled())
    record = msgspec.json.decode(written["errors/step_0.json"])
    assert [each["class"] for each in record["attempts"]] == ["interstitial", "stall"]
    assert len(record["attempts"][0]["html_excerpt"]) == 2_000
    assert "steps/0/00-no_such____tool.json" in written
