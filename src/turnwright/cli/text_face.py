"""`--output text`: the answer on stdout, everything else on stderr.

On a terminal the text appears as the model writes it, above a line that says what the turn is doing. Into a pipe or a
file goes the final answer alone; progress is then plain lines on stderr, with a heartbeat among them.
"""

from __future__ import annotations

from collections.abc import Callable

from turnwright.cli.terminal import Terminal
from turnwright.cli.wording import Level, Told, shows, told_of_end, told_of_fact, told_of_live
from turnwright.schema.errors import TurnwrightError
from turnwright.schema.facts import (
    ApprovalAsked,
    AttemptEnded,
    AttemptStarted,
    ModelReplied,
    Recorded,
    StepStarted,
    ToolEnded,
    ToolStarted,
)
from turnwright.schema.live import (
    Heartbeat,
    LiveEvent,
    ReasoningDelta,
    TextDelta,
    ToolArgsDelta,
    ToolOutput,
    ToolPreview,
)
from turnwright.schema.messages import ToolCall
from turnwright.views.metrics import Meter, metered
from turnwright.views.result import Result
from turnwright.views.text import Span, cost, count, duration, excerpt, line, one_line, plural, safe

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REMARK_CHARS = 4_000


class Work:
    """What the status line says."""

    def __init__(self) -> None:
        self.step = 0
        self.spent = Meter()
        self.waiting_for = "the start"
        self._running: dict[str, str] = {}

    def fact(self, recorded: Recorded) -> None:
        fact = recorded.fact
        match fact:
            case StepStarted():
                self.step = fact.index + 1
            case AttemptStarted():
                self.waiting_for = "the model"
            case AttemptEnded():
                self.spent = metered(self.spent, fact)
            case ToolStarted():
                self._running[fact.call_id or ""] = fact.name
                self.waiting_for = ", ".join(self._running.values())
            case ToolEnded():
                self._running.pop(fact.call_id or "", None)
                self.waiting_for = ", ".join(self._running.values()) or "the next step"
            case _:
                pass

    def status(self, elapsed_s: float) -> str:
        usage = self.spent.usage
        known = [tokens for tokens in (usage.input, usage.output) if tokens is not None]
        tokens = count(sum(known) if known else None)
        return (
            f"step {self.step} · {tokens} tokens · {cost(self.spent.cost_usd)} · {duration(elapsed_s * 1000)}"
            f" · {safe(self.waiting_for)}"
        )


class TextFace:
    def __init__(self, out: Terminal, err: Terminal, *, level: Level, monotonic: Callable[[], float]) -> None:
        self.ticks = err.rewrites
        self._out = out
        self._err = err
        self._level: Level = level
        self._monotonic = monotonic
        self._began = monotonic()
        self._work = Work()
        self._frame = 0
        self._conversation_id = ""
        self._streamed: list[str] = []
        """Text of the running reply that is on stdout already."""

    def fact(self, recorded: Recorded) -> None:
        self._conversation_id = recorded.conversation_id
        self._work.fact(recorded)
        match recorded.fact:
            case ModelReplied(message=message):
                self._replied(message.text, message.calls)
            case AttemptStarted():
                self._close_line()
                self._streamed = []
            case ApprovalAsked() if self._err.asks:
                return
            case _:
                pass
        if told := told_of_fact(recorded):
            self._tell(told)

    def live(self, event: LiveEvent) -> None:
        match event:
            case TextDelta():
                self._work.waiting_for = "the model, writing"
                if self._out.is_tty:
                    self._stream(event.text)
            case ReasoningDelta():
                self._work.waiting_for = "the model, thinking"
            case ToolArgsDelta():
                self._work.waiting_for = f"the model, calling {event.name}" if event.name else self._work.waiting_for
            case ToolPreview():
                self._preview(event)
            case ToolOutput():
                self._tool_output(event)
            case Heartbeat():
                self._work.waiting_for = event.waiting_for or self._work.waiting_for
                if not self._err.rewrites:
                    self._heartbeat(event)
            case _:
                if told := told_of_live(event):
                    self._tell(told)

    def tick(self) -> None:
        if self._in_line:
            return  # a status line would be written over the text that is just appearing
        self._frame += 1
        spinner = _FRAMES[self._frame % len(_FRAMES)]
        self._err.status(f"{spinner} {self._work.status(self._monotonic() - self._began)}")

    def ended(self, result: Result) -> None:
        self._close_line()
        if result.text and result.text.strip() != "".join(self._streamed).strip():
            self._say(result.text)
        self._tell(told_of_end(result, self._conversation_id))
        self._err.clear_status()
        self._err.flush()

    def failed(self, error: TurnwrightError) -> None:
        """The sentence itself comes from `main`, as for every other command."""
        self._close_line()
        self._err.clear_status()
        self._err.flush()

    def _replied(self, text: str, calls: tuple[ToolCall, ...]) -> None:
        """What is said beside calls is a remark, not the answer."""
        self._close_line()
        if calls and text.strip() and not self._out.is_tty and shows(self._level, "info"):
            said = excerpt(safe(text).strip(), _REMARK_CHARS).split("\n")
            self._err.lines(line(Span(each, "assistant")) for each in said)

    def _stream(self, text: str) -> None:
        self._err.clear_status()
        self._err.flush()
        self._streamed.append(text)
        self._out.write(safe(text))
        self._out.flush()

    def _say(self, text: str) -> None:
        self._err.clear_status()
        self._err.flush()
        shown = safe(text) if self._out.is_tty else text
        self._out.write(shown if shown.endswith("\n") else f"{shown}\n")
        self._out.flush()

    @property
    def _in_line(self) -> bool:
        return bool(self._streamed) and not self._streamed[-1].endswith("\n")

    def _close_line(self) -> None:
        if self._in_line:
            self._streamed.append("\n")
            self._out.write("\n")
            self._out.flush()

    def _tool_output(self, event: ToolOutput) -> None:
        if shows(self._level, "debug"):
            said = safe(event.text).rstrip("\n").split("\n")
            self._close_line()
            self._err.lines(line(Span(f"│ {each}", "output")) for each in said)

    def _preview(self, event: ToolPreview) -> None:
        if not shows(self._level, "info"):
            return
        said = [line(Span(f"  │ {safe(each)}", "output")) for each in event.lines]
        if event.more_lines:
            said.append(line(Span(f"  │ … {plural(event.more_lines, 'line')} more", "dim")))
        if event.old or event.new:
            said += [
                line(Span(f"  │ - {one_line(event.old)}", "bad")),
                line(Span(f"  │ + {one_line(event.new)}", "good")),
            ]
        if said:
            self._close_line()
            self._err.lines(said)

    def _heartbeat(self, event: Heartbeat) -> None:
        if shows(self._level, "info"):
            self._err.lines([line(Span(f"… {self._work.status(event.elapsed_s)}", "dim"))])

    def _tell(self, told: Told) -> None:
        if shows(self._level, told.level):
            self._close_line()
            self._err.lines([told.line])
