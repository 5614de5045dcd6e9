"""What a run shows, in each of its outputs, from the same facts and live events."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fact_script import CONVERSATION, Script, call
from journals import demo, troubled

from turnwright.cli.log_face import Both, LogFace
from turnwright.cli.output import Event, JsonFace, Shown, StreamFace, show
from turnwright.cli.terminal import Terminal
from turnwright.cli.text_face import TextFace
from turnwright.cli.wording import LEVELS, Level
from turnwright.config.display import Display, display_of
from turnwright.schema.errors import ConfigError, JournalUnwritable, TurnwrightError
from turnwright.schema.live import Heartbeat, RetryWait, TextDelta, TurnSealed
from turnwright.schema.tools import Question

PLAIN = Display(color=False, dumb=False, columns=100)


async def events_of(events: Iterable[Event], error: TurnwrightError | None = None) -> AsyncIterator[Event]:
    for event in events:
        yield event
        await asyncio.sleep(0)
    if error is not None:
        raise error


def with_live(script: Script) -> list[Event]:
    """Live events where they come in life: one before the first fact, some in between, one after the last."""
    begin = [TextDelta(conversation_id=CONVERSATION, text="early")]
    sealed = [TurnSealed(conversation_id=CONVERSATION, reason="stop")]
    return [*begin, *script.recorded, *sealed]


async def test_stream_json_is_one_object_a_line_and_names_the_conversation_first() -> None:
    out = io.BytesIO()
    shown = await show(events_of(with_live(demo())), StreamFace(out))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (lines[0]["type"], lines[0]["conversation_id"], lines[0]["seq"]) == ("conversation.opened", CONVERSATION, 1)
    assert lines[1] == {"type": "text-delta", "conversation_id": CONVERSATION, "text": "early"}
    facts = [line for line in lines if "seq" in line]
    assert [line["seq"] for line in facts] == list(range(1, len(facts) + 1))
    assert lines[-1].keys() == {
        "type", "conversation_id", "reason", "is_error", "text", "usage", "cost_usd", "steps", "duration_ms", "detail",
        "remedy", "denials", "tokens_per_s", "estimated",
    }  # fmt: skip
    assert (lines[-1]["type"], lines[-1]["reason"], lines[-1]["is_error"]) == ("result", "stop", False)
    assert lines[-1]["text"].startswith("The test passes")
    assert shown.exit_code == 0


async def test_every_line_is_out_before_the_next_event() -> None:
    """A program that reads us must not wait for a buffer to fill."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with open(write, "wb") as out:
        face = StreamFace(out)
        for recorded in demo().recorded[:3]:
            face.fact(recorded)
            assert os.read(read, 65_536).endswith(b"\n")
    os.close(read)


async def test_json_is_the_result_alone() -> None:
    out = io.BytesIO()
    await show(events_of(with_live(demo())), JsonFace(out))
    assert out.getvalue().count(b"\n") == 1
    assert json.loads(out.getvalue())["usage"] == {"input": 6200, "output": 215, "cache_read": 2280}


@pytest.mark.parametrize("face", [JsonFace, StreamFace])
async def test_a_run_that_could_not_end_has_a_last_line_too(face: type[JsonFace]) -> None:
    out = io.BytesIO()
    error = JournalUnwritable("The disk is full.", remedy="Make room.")
    with pytest.raises(JournalUnwritable):
        await show(events_of(demo().recorded[:4], error), face(out))
    last = json.loads(out.getvalue().splitlines()[-1])
    assert last == {
        "type": "result",
        "conversation_id": "",
        "error": "The disk is full. Make room.",
        "kind": "JournalUnwritable",
        "reason": "error",
        "is_error": True,
        "text": "",
        "usage": {},
        "cost_usd": None,
        "steps": 0,
        "duration_ms": 0.0,
        "detail": "",
        "remedy": "",
        "denials": [],
        "tokens_per_s": None,
        "estimated": [],
    }


async def test_no_end_is_not_a_success() -> None:
    shown = await show(events_of(demo().recorded[:4]), JsonFace(io.BytesIO()))
    assert shown == Shown(result=None)
    assert shown.exit_code == 1


async def test_a_refused_key_shows_in_the_exit_code() -> None:
    from turnwright.schema.facts import AttemptFault

    script = Script().opened().turn().step().asked()
    script.failed(fault=AttemptFault(message="bad key", kind="auth", status=401)).ended(reason="provider-error")
    assert (await show(events_of(script), JsonFace(io.BytesIO()))).exit_code == 41


def text_face(level: Level = "info", columns: int = 100) -> tuple[TextFace, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    display = Display(color=False, dumb=False, columns=columns)
    return TextFace(Terminal(out, display), Terminal(err, display), level=level, monotonic=lambda: 0.0), out, err


async def test_text_puts_the_answer_alone_on_stdout() -> None:
    face, out, err = text_face()
    await show(events_of([*with_live(demo())]), face)
    assert (
        out.getvalue() == "The test passes: `add` subtracted.\n\n```diff\n-    return a - b\n+    return a + b\n```\n"
    )
    assert err.getvalue() == (
        "c_0123456789abcdefghij  local/small in /home/me/project\n"
        "model complete · 1.2s · 1.2k in, 80 out\n"
        "I will run the test first.\n"
        "→ bash  pytest -q\n"
        "← bash  failed · exit 1 · 850ms  1 failed\n"
        "→ read  path=src/adder.py first_line=1\n"
        "← read  ok · 4ms\n"
        "attempt 1 on local/small: http_error 503: upstream is busy\n"
        "model complete · 1.2s · 1.5k in, 60 out\n"
        "→ edit  path=src/adder.py old=return a - b new=return a + b\n"
        "← edit  ok · 7ms\n"
        "model complete · 1.2s · 1.7k in, 30 out\n"
        "Now the test again.\n"
        "→ bash  pytest -q\n"
        "← bash  ok · 640ms\n"
        "model complete · 900ms · 1.8k in, 45 out\n"
        "stop · 4 steps · 6.2k in (2.3k cached), 215 out · $0.0065 · 8.3s · 74 tok/s\n"
    )


@pytest.mark.parametrize("level", LEVELS)
async def test_a_higher_level_only_adds_lines(level: Level) -> None:
    face, _, err = text_face(level)
    await show(events_of(troubled()), face)
    quieter = LEVELS[max(0, LEVELS.index(level) - 1)]
    less, _, err_less = text_face(quieter)
    await show(events_of(troubled()), less)
    lines = iter(err.getvalue().splitlines())
    assert all(any(line == other for other in lines) for line in err_less.getvalue().splitlines())


async def test_no_hostile_text_reaches_a_terminal() -> None:
    face, _, err = text_face("debug")
    await show(events_of(troubled()), face)
    assert not {letter for letter in err.getvalue() if ord(letter) < 32 and letter != "\n"}
    assert "\u202e" not in err.getvalue()


async def test_heartbeats_and_waits_are_plain_lines_in_a_log() -> None:
    face, _, err = text_face()
    script = Script().opened().turn().step().asked()
    beat = Heartbeat(conversation_id=CONVERSATION, step=1, elapsed_s=65.0, waiting_for="the model")
    wait = RetryWait(conversation_id=CONVERSATION, attempt=2, delay_s=2.0, reason="overloaded")
    await show(events_of([*script, beat, wait]), face)
    assert err.getvalue().splitlines()[1:] == [
        "… step 1 · ? tokens · $0.0000 · 1m05s · the model",
        "waiting 2.0s before attempt 2: overloaded",
    ]


async def test_a_turn_that_ended_early_says_why_and_how_to_carry_on() -> None:
    face, out, err = text_face("error")
    script = Script().opened().turn().step().asked()
    script.ended(reason="max-steps", steps=1, text="So far: nothing.", detail="1 step was allowed")
    await show(events_of(script), face)
    assert out.getvalue() == "So far: nothing.\n"
    (line,) = err.getvalue().splitlines()
    assert line.startswith("max-steps: 1 step was allowed · 1 step · ")
    assert line.endswith(f"carry on with: turnwright resume {CONVERSATION} --continue")


class FakeTty(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("not a descriptor")


def on_tty(columns: int = 60, *, color: bool = False) -> tuple[TextFace, FakeTty]:
    """stdout and stderr on one screen, as for a person."""
    screen = FakeTty()
    display = Display(color=color, dumb=False, columns=columns)
    face = TextFace(Terminal(screen, display), Terminal(screen, display), level="info", monotonic=lambda: 3.0)
    return face, screen


def test_on_a_terminal_text_appears_as_it_is_written_and_only_once() -> None:
    face, screen = on_tty()
    script = Script().opened().turn().step().asked()
    for recorded in script:
        face.fact(recorded)
    for piece in ("Hel", "lo \x1b[31m", "there"):
        face.live(TextDelta(conversation_id=CONVERSATION, text=piece))
        face.tick()
    assert screen.getvalue().endswith("Hello \u241b[31mthere")
    script.answered().replied("Hello \x1b[31mthere").ended(text="Hello \x1b[31mthere", steps=1)
    for recorded in script.recorded[4:]:
        face.fact(recorded)
    from turnwright.views.fold import folded
    from turnwright.views.result import ResultState, fold_result

    result = folded(fold_result, ResultState(), script).result
    assert result is not None
    face.ended(result)
    assert screen.getvalue().count("there") == 1
    assert "there\nmodel complete" in screen.getvalue()


def test_the_status_line_is_rewritten_in_place_and_fits() -> None:
    face, screen = on_tty(columns=30)
    script = Script().opened().turn().step().asked().answered().replied("", call(1)).began(call(1))
    for recorded in script:
        face.fact(recorded)
    before = len(screen.getvalue())
    face.tick()
    face.tick()
    first, second = screen.getvalue()[before:].split("\r\x1b[2K")[1:]
    assert first[1:] == second[1:] == " step 1 · 1.1k tokens · $0.…"
    assert first[0] != second[0]
    script.finished(call(1), "ok")
    face.fact(script.recorded[-1])
    assert screen.getvalue().rpartition("\r\x1b[2K")[2] == "← bash  ok · 20ms\n"


def test_no_status_line_while_somebody_types() -> None:
    screen = FakeTty()
    terminal = Terminal(screen, PLAIN)
    terminal.held = True
    terminal.status("working")
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("environ", "display"),
    [
        ({"TERM": "xterm"}, Display(color=True, dumb=False, columns=None)),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Display(color=False, dumb=False, columns=None)),
        ({"TERM": "xterm", "NO_COLOR": ""}, Display(color=True, dumb=False, columns=None)),
        ({"TERM": "dumb"}, Display(color=False, dumb=True, columns=None)),
        ({}, Display(color=False, dumb=True, columns=None)),
        ({"TERM": "xterm", "COLUMNS": "72"}, Display(color=True, dumb=False, columns=72)),
        ({"TERM": "xterm", "COLUMNS": "wide"}, Display(color=True, dumb=False, columns=None)),
    ],
)
def test_the_environment_decides_about_colour_and_width(environ: dict[str, str], display: Display) -> None:
    assert display_of(environ) == display


def test_colour_only_on_a_terminal() -> None:
    from turnwright.views.text import Span, line

    colored, plain = FakeTty(), io.StringIO()
    display = Display(color=True, dumb=False, columns=80)
    for stream in (colored, plain):
        Terminal(stream, display).lines([line(Span("bad", "bad"), " end  ")])
    assert (colored.getvalue(), plain.getvalue()) == ("\x1b[31mbad\x1b[0m end\n", "bad end\n")


async def test_a_log_file_has_the_same_lines_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    out = io.BytesIO()
    with LogFace(path, "warning") as log:
        await show(events_of(demo()), Both([JsonFace(out), log]))
    assert path.read_text() == (
        "2026-11-18 11:06:42Z warning c_0123456789abcdefghij "
        "attempt 1 on local/small: http_error 503: upstream is busy\n"
    )
    assert out.getvalue().count(b"\n") == 1


def test_a_log_file_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\(logging.file\) cannot be written: Is a directory"):
        LogFace(tmp_path, "info")


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def question(text: str, choices: tuple[str, ...] = ()) -> Question:
    return Question(approval_id="a_1", conversation_id="c_1", text=text, choices=choices)


@pytest.mark.parametrize(
    ("typed", "choices", "answer"),
    [
        (b"use tabs\n", (), "use tabs"),
        (b"2\n", ("yes", "no"), "no"),
        (b"Y\n", ("yes", "no"), "yes"),
        (b"maybe\n3\n\n1\n", ("yes", "no"), "yes"),
        (b"no\n", ("not now", "no"), "no"),
        (b"\x04", ("yes", "no"), None),
    ],
)
async def test_a_question_is_put_and_answered(typed: bytes, choices: tuple[str, ...], answer: str | None) -> None:
    from turnwright.cli.asking import Asker

    screen = FakeTty()
    with pseudo_terminal() as (ours, theirs):
        asker = Asker(Terminal(screen, PLAIN), theirs)
        os.write(ours, typed)
        assert await asyncio.wait_for(asker(question("Go \x1b[31mon?", choices)), 10) == answer
    assert "Go \u241b[31mon?" in screen.getvalue()


def test_a_question_that_is_put_is_not_told_as_well() -> None:
    from turnwright.cli.asking import Asker
    from turnwright.schema.facts import ApprovalAsked

    screen = FakeTty()
    terminal = Terminal(screen, PLAIN)
    face = TextFace(terminal, terminal, level="info", monotonic=lambda: 0.0)
    asked = Script().add(ApprovalAsked(approval_id="a_1", question="Go on?")).recorded[0]
    face.fact(asked)
    assert screen.getvalue() == "? Go on?\n"
    Asker(terminal, 0)
    face.fact(asked)
    assert screen.getvalue() == "? Go on?\n"


async def test_a_question_lets_a_cancelled_turn_go() -> None:
    from turnwright.cli.asking import Asker

    with pseudo_terminal() as (_, theirs):
        terminal = Terminal(FakeTty(), PLAIN)
        asking = asyncio.ensure_future(Asker(terminal, theirs)(question("Go on?")))
        await asyncio.sleep(0.05)
        assert terminal.held
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not terminal.held
