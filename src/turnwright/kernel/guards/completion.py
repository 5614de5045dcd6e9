"""When a turn is done. By default a reply without a call ends it, and this guard has nothing to say. Where the user has
asked for more, such a reply is answered with what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import Block, Halt, Judgement, Nudge
from turnwright.schema.facts import Fact, ModelReplied, StepStarted, ToolEnded, ToolStarted
from turnwright.schema.guards import Completion
from turnwright.schema.ids import CallId
from turnwright.schema.messages import ToolCall
from turnwright.schema.tools import Detail
from turnwright.schema.verdicts import Effect

NAME = "completion"
TOOL = "mark_task_complete"


class Complete:
    def __init__(self, settings: Completion) -> None:
        self._settings = settings
        self._effects: dict[CallId | None, Effect] = {}
        self._summaries: dict[CallId | None, str] = {}
        self._changed = self._succeeded = self._failed = False
        self._asked = 0
        self._leads_on = False
        """Another mode follows: an answer ends this one, and not the task."""

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case StepStarted():
                self._leads_on = bool(fact.next_mode)
            case ModelReplied():
                return self._replied(fact)
            case ToolStarted():
                self._effects[fact.call_id] = fact.effect
            case ToolEnded(name=name, outcome="ok") if name == TOOL and self._settings.tool:
                text = self._summaries.get(fact.call_id, "")
                return [Halt(guard=NAME, why=f"{TOOL} was called", reason="stop", text=text)]
            case ToolEnded():
                self._ended(fact)
            case _:
                pass
        return ()

    def _ended(self, fact: ToolEnded) -> None:
        """A command speaks by its exit, and for what was changed before it."""
        effect = self._effects.pop(fact.call_id, None)
        exit_code = fact.detail.get("exit_code")
        if effect == "writes" and fact.outcome == "ok":
            self._changed, self._succeeded, self._failed = True, False, False
        elif effect == "runs" and exit_code is not None:
            self._succeeded, self._failed = exit_code == 0, exit_code != 0

    @property
    def _proven(self) -> bool:
        return self._succeeded or (self._changed and not self._failed)

    def _replied(self, fact: ModelReplied) -> Sequence[Judgement]:
        calls = fact.message.calls
        self._effects.clear()
        if self._settings.tool:
            self._summaries = {call.id: _summary(call) for call in calls if call.name == TOOL}
            if self._summaries and self._settings.evidence and not self._proven:
                return [self._forbidden(call_id) for call_id in self._summaries if call_id]
        if calls or fact.verdict != "complete" or self._leads_on:
            return ()
        missing = self._missing(fact.message.text)
        if missing is None:
            return ()
        why, told = missing
        return [Nudge(guard=NAME, why=why, said=wording.said(NAME, told))] if told else self._unproven()

    def _missing(self, text: str) -> tuple[str, str] | None:
        """Why, and what the model is told; nothing to tell where it is evidence that is missing."""
        if self._settings.tool:
            return f"the reply ends nothing: {TOOL} was not called", wording.call_the_tool(TOOL)
        sentinel = self._settings.sentinel
        if sentinel and sentinel not in map(str.strip, text.splitlines()):
            return f"the reply ends nothing: {sentinel!r} is not on a line of its own", wording.write_sentinel(sentinel)
        return ("", "") if self._settings.evidence and not self._proven else None

    def _unproven(self) -> Sequence[Judgement]:
        self._asked += 1
        why = self._why_not()
        evidence: Detail = {"changed": self._changed, "failed": self._failed, "asked": self._asked}
        if self._asked > self._settings.asks:
            return [Halt(guard=NAME, why=why, evidence=evidence)]
        return [Nudge(guard=NAME, why=why, said=wording.said(NAME, wording.prove_it(why)), evidence=evidence)]

    def _forbidden(self, call_id: CallId) -> Block:
        return Block(guard=NAME, why=self._why_not(), call_id=call_id, evidence={"changed": self._changed})

    def _why_not(self) -> str:
        if self._failed:
            return "done was claimed, and the last command failed"
        return "done was claimed, and nothing was changed and no command has succeeded"


def _summary(call: ToolCall) -> str:
    try:
        return str(msgspec.json.decode(call.arguments).get("summary", ""))
    except (msgspec.DecodeError, AttributeError):
        return ""
