"""The same call with the same result, again and again; two calls in turns; words where acts were asked for.

A call is the same by tool, arguments and result, so that polling what changes is no loop. A new call that may have
changed the world wipes the slate: the same test after another edit is no loop either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.guards.signature import Asked, Calls, Signature, result_of
from turnwright.kernel.ports import Block, ForceAnswer, Judgement, Warn
from turnwright.schema.facts import Fact, GuardTripped, ModelReplied, ToolEnded, ToolStarted
from turnwright.schema.guards import LoopGuard
from turnwright.schema.ids import CallId
from turnwright.schema.messages import ToolCall

NAME = "loop"


class Loop:
    def __init__(self, settings: LoopGuard) -> None:
        self._settings = settings
        self._calls = Calls()
        self._acting: set[CallId] = set()
        self._window: deque[Signature] = deque(maxlen=settings.window)
        self._told: set[Signature | tuple[Signature, Signature]] = set()
        self._speeches = 0

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case ModelReplied():
                return self._replied(fact.message.calls)
            case ToolStarted(call_id=str(call_id)) if fact.effect != "reads":
                self._acting.add(call_id)
                return ()
            case ToolEnded() if fact.outcome != "refused" and "shared_with" not in fact.detail:
                return list(self._ended(fact))
            case GuardTripped(verdict="ask"):
                return self._wanted_more()
            case _:
                return ()

    def _replied(self, calls: Sequence[ToolCall]) -> Sequence[Judgement]:
        self._calls.take(calls)
        self._acting.clear()
        self._speeches = 0 if calls else self._speeches + 1
        return [block for call in calls if (block := self._block(call)) is not None]

    def _block(self, call: ToolCall) -> Block | None:
        asked = self._calls.asked(call.id)
        if asked is None:
            return None
        times = self._in_vain(asked)
        pair = self._alternating()
        if times + 1 < self._settings.block_at and (pair is None or asked not in {one.asked for one in pair}):
            return None
        pattern = "repeat" if pair is None else "alternate"
        return Block(
            guard=NAME,
            why=wording.blocked_call(call.name, times),
            call_id=call.id,
            evidence={"pattern": pattern, "tool": call.name, "times": times},
        )

    def _ended(self, fact: ToolEnded) -> Iterator[Judgement]:
        asked = self._calls.of(fact)
        if asked is None:
            return
        if fact.call_id in self._acting and all(one.asked != asked for one in self._window):
            self._window.clear()
            self._told.clear()
        signature = Signature(asked, result_of(fact))
        self._window.append(signature)
        times = self._in_vain(asked)
        if times >= self._settings.warn_at and signature not in self._told:
            self._told.add(signature)
            yield Warn(
                guard=NAME,
                why=f"{asked.name} was called {times} times with the same arguments and the same result",
                said=wording.said(NAME, wording.repeated_call(asked.name, times)),
                evidence={"pattern": "repeat", "tool": asked.name, "times": times, "result": signature.result},
            )
        pair = self._alternating()
        if pair is not None and pair not in self._told:
            one, other = pair
            self._told |= {pair, (other, one)}
            count = self._settings.alternate_at
            yield Warn(
                guard=NAME,
                why=f"the last {count} calls alternate between {one.asked.name} and {other.asked.name}",
                said=wording.said(NAME, wording.alternating_calls(one.asked.name, other.asked.name, count)),
                evidence={"pattern": "alternate", "tool": one.asked.name, "other": other.asked.name, "times": count},
            )

    def _in_vain(self, asked: Asked) -> int:
        """How often this was done without anything new coming of it."""
        results = [one.result for one in self._window if one.asked == asked]
        return len(results) if len(set(results)) == 1 else 0

    def _alternating(self) -> tuple[Signature, Signature] | None:
        count = self._settings.alternate_at
        last = list(self._window)[-count:]
        if len(last) < count or last[0] == last[1]:
            return None
        return (last[0], last[1]) if all(one == last[at % 2] for at, one in enumerate(last)) else None

    def _wanted_more(self) -> Sequence[Judgement]:
        if self._speeches < self._settings.monologue_at:
            return ()
        count, self._speeches = self._speeches, 0
        said = wording.said(NAME, wording.monologue(count))
        why = f"{count} replies in a row called no tool and did not end the task"
        return [ForceAnswer(guard=NAME, why=why, said=said, evidence={"pattern": "monologue", "times": count})]
