"""From facts to what the model sees. One fold for a running turn, a resume, a replay and every view of the prompt.

It always yields a history that a provider accepts: every call has one result, in call order, and no result stands
alone (R1). Facts are never changed; what is missing is made up here, the same way each time.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

from turnwright.kernel.compaction import Cut, digest_message, stubbed
from turnwright.kernel.counting import Counts, chars_of
from turnwright.kernel.subagent import result_of
from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    ContextCompacted,
    Fact,
    GuardTripped,
    ModeChanged,
    ModelReplied,
    Note,
    SteeringDelivered,
    StepStarted,
    SubagentEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
    Work,
)
from turnwright.schema.ids import CallId, Seq
from turnwright.schema.messages import (
    AssistantMessage,
    Message,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from turnwright.schema.verdicts import GOOD_VERDICTS

CallState: TypeAlias = Literal["done", "not-started", "repeatable", "unknown"]
"""`repeatable` and `unknown` had started and have no end; only what merely reads may be done again (R2)."""


class History:
    """Messages in order, only ever appended to within one lineage. The last reply is held back until each of its calls
    is settled, so that nothing already encoded ever changes (C2)."""

    def __init__(self, lineage: str) -> None:
        self.lineage = lineage
        """The conversation's id; behind a tilde a hash, once it was compacted."""
        self.messages: list[Message] = []
        self.size_chars = 0
        self.counts = Counts()
        self.cuts: list[Cut] = []
        """Where steps begin: a compaction takes away what lies before one of them."""
        self.work = Work()
        """What calls had done that are no longer shown."""
        self.compactions_failed = 0
        """In a row."""
        self.steps_since_compaction: int | None = None
        self.segments: dict[str, str] = {}
        """What the last step was sent; a summary without tools counts only where nothing else was."""
        self.rebuilt_differently = False
        """What was folded is not what a step on record was sent."""
        self.taken_up = False
        """Folded from a journal, and nothing was sent since."""
        self._hash = hashlib.sha256()
        self._hashed = 0
        self.call_ids: set[CallId] = set()
        self.last_reply: ModelReplied | None = None
        """The reply of the newest step; None once a later step has begun or the turn is over."""
        self._reply: AssistantMessage | None = None
        self._step_id = ""
        self._started: dict[CallId, ToolStarted] = {}
        self._ended: dict[CallId, ToolEnded] = {}
        self._subagents: dict[CallId, SubagentEnded] = {}
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
                self._step_begins(fact)
            case AttemptEnded(purpose="turn", usage=usage) if usage is not None and fact.verdict in GOOD_VERDICTS:
                self.counts.sent(fact.route, usage, self.size_chars)
            case ModelReplied():
                self.last_reply = fact
                self.counts.replied(fact.message)
                self._hold(fact)
            case ToolStarted(call_id=str(call_id)):
                self._started[call_id] = fact
            case ToolEnded(call_id=str(call_id)):
                self._ended[call_id] = fact
                self._release_when_whole()
            case SubagentEnded(call_id=str(call_id)):
                self._subagents[call_id] = fact
            case SteeringDelivered():
                self._say(UserMessage(text=fact.text))
            case (
                GuardTripped(said=RuntimeMessage() as said)
                | ModeChanged(said=RuntimeMessage() as said)
                | Note(said=RuntimeMessage() as said)
            ):
                self._say(said)
            case ApprovalAsked():
                self._asked[fact.approval_id] = fact
            case ApprovalAnswered(by="user"):
                if (asked := self._asked.pop(fact.approval_id, None)) is not None:
                    self._answers.append((asked.call_id or "", asked.question, fact.answer))
            case Note(code="turn-resumed"):
                self._answers_from_before = list(self._answers)
            case Note(code="compaction-failed"):
                self.compactions_failed += 1
            case ContextCompacted():
                self._compact(fact)
            case TurnEnded():
                self.settle()
                self.last_reply = None
            case _:
                pass

    def placed(self, fact: Fact | Unknown, seq: Seq) -> None:
        """Where a fact that was applied stands in the journal."""
        if type(fact) is StepStarted and self.cuts and self.cuts[-1].step_id == fact.step_id:
            self.cuts[-1].seq = seq

    def hash(self) -> str:
        """Of all messages so far, one after the other: each costs once."""
        while self._hashed < len(self.messages):
            self._hash.update(_encode(self.messages[self._hashed]))
            self._hashed += 1
        return self._hash.copy().hexdigest()[:16]

    def estimate(self, route: str) -> int:
        """Tokens of a request with all of it."""
        return self.counts.estimate(route, self.size_chars)

    def open_calls(self) -> list[tuple[ToolCall, CallState]]:
        """The calls of the reply that is still held back, in call order, and what is known of each."""
        if self._reply is None:
            return []
        return [(call, self._state(call.id)) for call in self._reply.calls]

    def subagent_of(self, call_id: CallId) -> SubagentEnded | None:
        """What became of the subagent that an open call had sent."""
        return self._subagents.get(call_id)

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
        self._subagents.clear()
        self._asked.clear()
        self._answers.clear()
        for message in self._after:
            self._append(message)
        self._after.clear()

    def after(self, fact: ContextCompacted) -> History:
        """What would be left: to be measured, while this one stays as it is."""
        other = History(self.lineage)
        other.messages, other.cuts, other.counts = self.messages, self.cuts, self.counts.copy()
        other.apply(fact)
        return other

    def _step_begins(self, fact: StepStarted) -> None:
        if self._reply is None:
            self.cuts.append(Cut(fact.step_id or "", len(self.messages)))
        if self.steps_since_compaction is not None:
            self.steps_since_compaction += 1
        self.counts.prefix_chars = fact.prefix_chars
        recorded = fact.segments.get("history")
        self.rebuilt_differently = recorded is not None and recorded != self.hash()
        if fact.tools_offered or not self.segments:
            self.segments = fact.segments

    def _compact(self, fact: ContextCompacted) -> None:
        """The one thing that changes what was shown before: hence another lineage, and nothing encoded is kept.

        Whoever begins to read at `through_seq` has nothing before the cut, and comes to the same messages."""
        if fact.digest:
            cut = next((cut for cut in self.cuts if cut.step_id == fact.from_step), Cut(fact.from_step, 0))
            head = [*fact.kept, digest_message(fact)]
            self.messages = [*head, *self.messages[cut.index :]]
            self.cuts = [
                Cut(each.step_id, each.index - cut.index + len(head), each.seq)
                for each in self.cuts
                if each.index >= cut.index
            ]
            self.work = fact.work
        if fact.stubbed:
            self.messages = stubbed(self.messages, frozenset(fact.stubbed))
        self.size_chars = sum(map(chars_of, self.messages))
        self.counts.history_changed()
        self.compactions_failed = 0 if fact.helped else self.compactions_failed + 1
        self.steps_since_compaction = 0
        self.rebuilt_differently = False
        self._hash, self._hashed = hashlib.sha256(), 0
        self.lineage = f"{self.lineage.partition('~')[0]}~{self.hash()}"

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
            subagent = self._subagents.get(call.id)
            if subagent is not None and subagent.reason is not None:
                known = result_of(subagent)
                return ToolResult(call_id=call.id, name=call.name, output=known.output, is_error=known.outcome != "ok")
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
        self.size_chars += chars_of(message)


def interrupted_text(step_id: str) -> str:
    return (
        f"interrupted: this call had started in step {step_id}, and its outcome is unknown. "
        "It may have had its effect, whole or in part: look before you repeat it."
    )


_encode = msgspec.json.Encoder().encode
