"""From facts to what the model sees. One fold for a running turn, a resume, a replay and every view of the prompt.

It always yields a history that a provider accepts: every call has one result, in call order, and no result stands
alone (R1). Facts are never changed; what is missing is made up here, the same way each time.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from turnwright.kernel.compaction import stubbed
from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ContextCompacted,
    Fact,
    GuardTripped,
    ModelReplied,
    Note,
    SteeringDelivered,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import CallId
from turnwright.schema.messages import (
    AssistantMessage,
    Message,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)

CallState: TypeAlias = Literal["done", "not-started", "repeatable", "unknown"]
"""`repeatable` and `unknown` had started and have no end; only what merely reads may be done again (R2)."""


class History:
    """Messages in order, only ever appended to within one lineage. The last reply is held back until each of its calls
    is settled, so that nothing already encoded ever changes (C2)."""

    def __init__(self, lineage: str) -> None:
        self.lineage = lineage
        self.messages: list[Message] = []
        self.size_chars = 0
        self.call_ids: set[CallId] = set()
        self.last_reply: ModelReplied | None = None
        """The reply of the newest step; None once a later step has begun or the turn is over."""
        self._reply: AssistantMessage | None = None
        self._step_id = ""
        self._started: dict[CallId, ToolStarted] = {}
        self._ended: dict[CallId, ToolEnded] = {}
        self._after: list[Message] = []
        self._asked: dict[str, ApprovalAsked] = {}
        self._answers: list[tuple[CallId, str, str]] = []
        """What the user answered to the open calls: call, question, answer."""
        self._answers_from_before: list[tuple[CallId, str, str]] = []

    def apply(self, fact: Fact | Unknown) -> None:
        match fact:
            case TurnStarted(continued=False):
                self.settle()
                self._append(UserMessage(text=fact.text, images=fact.images))
            case StepStarted():
                self.last_reply = None
            case ModelReplied():
                self.last_reply = fact
                self._hold(fact)
            case ToolStarted(call_id=str(call_id)):
                self._started[call_id] = fact
            case ToolEnded(call_id=str(call_id)):
                self._ended[call_id] = fact
                self._release_when_whole()
            case SteeringDelivered():
                self._say(UserMessage(text=fact.text))
            case GuardTripped(said=RuntimeMessage() as said) | Note(said=RuntimeMessage() as said):
                self._say(said)
            case ApprovalAsked():
                self._asked[fact.approval_id] = fact
            case ApprovalAnswered(by="user"):
                if (asked := self._asked.pop(fact.approval_id, None)) is not None:
                    self._answers.append((asked.call_id or "", asked.question, fact.answer))
            case Note(code="turn-resumed"):
                self._answers_from_before = list(self._answers)
            case ContextCompacted(stubbed=calls) if calls:
                self._leave_out(frozenset(calls))
            case TurnEnded():
                self.settle()
                self.last_reply = None
            case _:
                pass

    def open_calls(self) -> list[tuple[ToolCall, CallState]]:
        """The calls of the reply that is still held back, in call order, and what is known of each."""
        if self._reply is None:
            return []
        return [(call, self._state(call.id)) for call in self._reply.calls]

    def answer_from_before(self, call_id: CallId, question: str) -> str | None:
        """What the user said to it before the crash, once; None where it was not answered then."""
        for answered in self._answers_from_before:
            if answered[:2] == (call_id, question):
                self._answers_from_before.remove(answered)
                return answered[2]
        return None

    @property
    def open_step_id(self) -> str:
        return self._step_id

    def settle(self) -> None:
        """Close the held reply: a call that had started and has no end reads `interrupted`; one that never started is
        taken out, and with it a reply that would be left with nothing to say."""
        reply, self._reply = self._reply, None
        if reply is not None:
            kept = tuple(call for call in reply.calls if self._state(call.id) != "not-started")
            if kept or reply.text:
                self._append(msgspec.structs.replace(reply, calls=kept))
            if kept:
                self._append(ToolResults(results=tuple(self._result(call) for call in kept)))
        self._started.clear()
        self._ended.clear()
        self._asked.clear()
        self._answers.clear()
        for message in self._after:
            self._append(message)
        self._after.clear()

    def _leave_out(self, calls: frozenset[CallId]) -> None:
        """The one thing that changes what was shown before: hence another lineage, and nothing encoded is kept."""
        self.messages = stubbed(self.messages, calls)
        self.size_chars = sum(map(_size, self.messages))
        self.lineage += "~"

    def _hold(self, fact: ModelReplied) -> None:
        known = dict(self._ended), dict(self._started)
        if self._reply is not None:
            self.settle()
        self._step_id = fact.step_id or ""
        calls = {call.id for call in fact.message.calls}
        self.call_ids |= calls
        # An eager call starts, and may end, before its reply is whole; results of an attempt that failed have no call.
        self._ended = {call_id: end for call_id, end in known[0].items() if call_id in calls}
        self._started = {call_id: start for call_id, start in known[1].items() if call_id in calls}
        if not calls:
            if fact.message.text:
                self._append(fact.message)
            return
        self._reply = fact.message
        self._release_when_whole()

    def _release_when_whole(self) -> None:
        if self._reply is not None and all(call.id in self._ended for call in self._reply.calls):
            self.settle()

    def _say(self, message: Message) -> None:
        """Words that arrive while calls are open come after their results: no provider takes them in between."""
        if self._reply is None:
            self._append(message)
        else:
            self._after.append(message)

    def _state(self, call_id: CallId) -> CallState:
        if call_id in self._ended:
            return "done"
        started = self._started.get(call_id)
        if started is None:
            return "not-started"
        return "repeatable" if started.idempotency == "repeatable" else "unknown"

    def _result(self, call: ToolCall) -> ToolResult:
        ended = self._ended.get(call.id)
        if ended is None:
            return ToolResult(call_id=call.id, name=call.name, output=interrupted_text(self._step_id), is_error=True)
        return ToolResult(
            call_id=call.id,
            name=call.name,
            output=ended.output,
            is_error=ended.outcome != "ok",
            images=ended.images,
        )

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self.size_chars += _size(message)


def interrupted_text(step_id: str) -> str:
    return (
        f"interrupted: this call had started in step {step_id}, and its outcome is unknown. "
        "It may have had its effect, whole or in part: look before you repeat it."
    )


def _size(message: Message) -> int:
    match message:
        case UserMessage() | RuntimeMessage():
            return len(message.text)
        case AssistantMessage():
            return len(message.text) + sum(len(call.arguments) + len(call.name) for call in message.calls)
        case ToolResults():
            return sum(len(result.output) for result in message.results)
