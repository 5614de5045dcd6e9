"""One reply that repeats itself: in its text, its reasoning, or the arguments of a call. It would never end by itself,
so this guard also looks on while the reply comes, and what it finds ends the attempt.

A run of period p: every character equals the one p before it. A run is looked for at fixed places, every
96 characters: the 24 characters before it are searched for further back, and a find tells the period. Then the run is
measured in both directions. So a reply costs what its length costs, however it is cut into fragments.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import Halt, Judgement, Nudge, Repeated
from turnwright.kernel.sample import REPETITION
from turnwright.schema.facts import AttemptEnded, Fact, ModelReplied
from turnwright.schema.guards import RepetitionGuard
from turnwright.schema.live import LiveEvent, ReasoningDelta, TextDelta, ToolArgsDelta
from turnwright.schema.tools import Detail

NAME = "repetition"
STRIDE = 96
NEEDLE = 24
PERIOD_MAX = 2_048
KEPT = 8 * PERIOD_MAX
"""Longer than the longest run that is measured."""
FINDS_MAX = 4
SHOWN_MAX = 256


class _Run(msgspec.Struct):
    """A run that reaches to where was looked last."""

    period: int
    start: int


class Strand:
    """One text as it grows."""

    def __init__(self, settings: RepetitionGuard) -> None:
        self._settings = settings
        self._pieces: list[str] = []
        self._waiting = 0
        self._text = ""
        self._runs: list[_Run] = []

    def add(self, fragment: str) -> Repeated | None:
        self._pieces.append(fragment)
        self._waiting += len(fragment)
        return self._look() if self._waiting >= STRIDE else None

    def end(self) -> Repeated | None:
        """The last bit, shorter than a stride."""
        found = self._look()
        if found is not None:
            return found
        before, self._text = len(self._text), self._text + "".join(self._pieces)
        return self._advanced(before, len(self._text))

    def _look(self) -> Repeated | None:
        fresh = "".join(self._pieces)
        whole = len(fresh) - len(fresh) % STRIDE
        self._pieces, self._waiting = [fresh[whole:]], len(fresh) - whole
        before, self._text = len(self._text), self._text + fresh[:whole]
        for at in range(before, len(self._text), STRIDE):
            if self._runs:
                found = self._advanced(at, at + STRIDE)
                if found is not None:
                    return found
            self._find_runs(at + STRIDE)
        if len(self._text) > 2 * KEPT:
            self._drop(len(self._text) - KEPT)
        return None

    def _advanced(self, before: int, end: int) -> Repeated | None:
        """Runs that were open go on into what lies between, or end in it."""
        text, still_open = self._text, []
        more = text[before:end]
        for run in self._runs:
            shifted = text[before - run.period : end - run.period]
            same = len(more) if shifted == more else _common(shifted, more)
            if before + same - run.start >= self._needed(run.period):
                return self._repeated(run, before + same)
            if same == len(more):
                still_open.append(run)
        self._runs = still_open
        return None

    def _drop(self, count: int) -> None:
        self._text = self._text[count:]
        self._runs = [_Run(run.period, max(0, run.start - count)) for run in self._runs]

    def _find_runs(self, end: int) -> None:
        text = self._text
        if end < 2 * NEEDLE:
            return
        needle = text[end - NEEDLE : end]
        lowest, before = max(0, end - NEEDLE - PERIOD_MAX), end - 1
        for _ in range(FINDS_MAX):
            at = text.rfind(needle, lowest, before)
            if at < 0:
                return
            known = {run.period for run in self._runs}
            run = _Run(end - NEEDLE - at, _start_of_run(text, end, end - NEEDLE - at))
            if run.period not in known:
                self._runs.append(run)
            before = min(at + NEEDLE - 1, run.start + NEEDLE - 1)  # further back than this run, which is measured

    def _needed(self, period: int) -> int:
        settings = self._settings
        if settings.segment_chars <= period < settings.block_chars:
            return period * settings.segment_times
        return max(period, settings.block_chars) * settings.block_times

    def _repeated(self, run: _Run, end: int) -> Repeated:
        segment = self._text[run.start : run.start + run.period]
        times = (end - run.start) // run.period
        return Repeated(
            segment=segment[:SHOWN_MAX], why=f"{run.period} characters were repeated {times} times in a row"
        )


def _start_of_run(text: str, end: int, period: int) -> int:
    """How far back every character equals the one a period before it; the run begins a period before that."""
    start = end
    while start >= 2 * period and text[start - period : start] == text[start - 2 * period : start - period]:
        start -= period
    one, other = text[max(period, start - period) : start], text[max(0, start - 2 * period) : start - period]
    return start - _common(one[::-1], other[::-1]) - period


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Watch:
    """`kernel.ports.Watch`: looks at a reply while it comes."""

    def __init__(self, settings: RepetitionGuard) -> None:
        self._settings = settings
        self._strands: dict[str, Strand] = {}

    def see(self, event: LiveEvent) -> Repeated | None:
        match event:
            case TextDelta(text=text):
                return self._strand("text").add(text)
            case ReasoningDelta(text=text):
                return self._strand("reasoning").add(text)
            case ToolArgsDelta(fragment=fragment, call_id=call_id):
                return self._strand(f"call {call_id}").add(fragment)
            case _:
                return None

    def end(self) -> Repeated | None:
        return next((found for strand in self._strands.values() if (found := strand.end()) is not None), None)

    def _strand(self, name: str) -> Strand:
        strand = self._strands.get(name)
        if strand is None:
            strand = self._strands[name] = Strand(self._settings)
        return strand


class Repetition:
    """What follows from it: once the model is asked again, with a hint and more freedom; then the turn is stopped."""

    def __init__(self, settings: RepetitionGuard) -> None:
        self._settings = settings
        self._ended = 0

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case AttemptEnded() if fact.fault is not None and fact.fault.code == REPETITION:
                return [self._attempt_was_ended(fact.fault.message, fact.fault.excerpt, fact.partial_text)]
            case ModelReplied():
                return self._looked_back(fact)
            case _:
                return ()

    def _attempt_was_ended(self, why: str, segment: str, text: str) -> Judgement:
        self._ended += 1
        evidence: Detail = {"segment": segment, "ended": self._ended}
        if self._ended > self._settings.nudges:
            return Halt(guard=NAME, why=why, text=wording.nothing_but_repetition(text), evidence=evidence)
        said = wording.said(NAME, wording.repeats_itself(segment))
        return Nudge(
            guard=NAME, why=why, said=said, warmer=self._settings.warmer, warmer_if_thinking=0.1, evidence=evidence
        )

    def _looked_back(self, fact: ModelReplied) -> Sequence[Judgement]:
        """In a running turn such a reply was ended before it was whole; in a recorded one, another threshold may find
        something in what was then let through."""
        message = fact.message
        texts = [message.text, *(each.text for each in message.reasoning)]
        texts += [call.raw or call.arguments for call in message.calls]
        for text in texts:
            strand = Strand(self._settings)
            found = (strand.add(text) or strand.end()) if len(text) >= STRIDE else None
            if found is not None:
                return [self._attempt_was_ended(found.why, found.segment, message.text)]
        return ()
