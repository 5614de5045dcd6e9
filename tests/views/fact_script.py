"""Journals for tests, fact by fact, in the order in which the turn loop records them."""

from __future__ import annotations

from collections.abc import Iterator

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    ConversationOpened,
    KnownFact,
    ModelReplied,
    Recorded,
    StepStarted,
    Timing,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
    encode_body,
)
from turnwright.schema.messages import AssistantMessage, Reasoning, ToolCall
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import Effect, StopReason, Verdict, idempotency_of

CONVERSATION = "c_0123456789abcdefghij"
EPOCH_MS = 1_795_000_000_000
ROUTE = "local/small"
USUAL = Usage(input=1000, output=50)
UNSAID = Usage()


class Script:
    """Facts one after another; the clock moves by hand."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self.now_ms = EPOCH_MS
        self.turn_id = ""
        self.step_id = ""
        self._turns = 0
        self._index = 0

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.recorded)

    def add(self, fact: KnownFact | Unknown, *, wait_ms: int = 0) -> Script:
        self.now_ms += wait_ms
        body = b'{"type":"%b"}' % fact.type.encode() if isinstance(fact, Unknown) else encode_body(fact)
        self.recorded.append(
            Recorded(
                conversation_id=CONVERSATION,
                seq=len(self.recorded) + 1,
                at=self.now_ms,
                fact=fact,
                body=body,
            )
        )
        return self

    def opened(self, title: str = "") -> Script:
        return self.add(ConversationOpened(workspace="/home/me/project", model=ROUTE, turnwright="0.1.0", title=title))

    def turn(self, text: str = "fix the test", **fields: object) -> Script:
        self._turns += 1
        self._index = 0
        self.turn_id = f"t_{self._turns}"
        self.step_id = ""
        return self.add(TurnStarted(turn_id=self.turn_id, text=text, **fields))  # type: ignore[arg-type]

    def step(self) -> Script:
        self.step_id = f"{self.turn_id}#{self._index}"
        self._index += 1
        return self.add(StepStarted(turn_id=self.turn_id, step_id=self.step_id, index=self._index - 1))

    def asked(self, attempt: int = 1, purpose: str = "turn", wait_ms: int = 0) -> Script:
        return self.add(
            AttemptStarted(turn_id=self.turn_id, step_id=self.step_id, attempt=attempt, route=ROUTE, purpose=purpose),
            wait_ms=wait_ms,
        )

    def answered(
        self,
        attempt: int = 1,
        *,
        verdict: Verdict = "complete",
        usage: Usage | None = USUAL,
        cost_usd: float | None = 0.002,
        total_ms: float = 1200.0,
        ttft_ms: float | None = 400.0,
        fault: AttemptFault | None = None,
        partial_text: str = "",
        purpose: str = "turn",
        request_id: str = "",
    ) -> Script:
        decode_ms = None if ttft_ms is None else total_ms - ttft_ms
        return self.add(
            AttemptEnded(
                turn_id=self.turn_id,
                step_id=self.step_id,
                attempt=attempt,
                route=ROUTE,
                verdict=verdict,
                timing=Timing(total_ms=total_ms, ttft_ms=ttft_ms, decode_ms=decode_ms),
                usage=usage,
                cost_usd=cost_usd,
                fault=fault,
                partial_text=partial_text,
                purpose=purpose,
                request_id=request_id,
            ),
            wait_ms=int(total_ms),
        )

    def failed(self, attempt: int = 1, fault: AttemptFault | None = None, **fields: object) -> Script:
        fields = {"verdict": "http_error", "usage": None, "cost_usd": None, "ttft_ms": None, "total_ms": 300.0} | fields
        return self.answered(
            attempt,
            fault=fault or AttemptFault(message="upstream is busy", kind="overloaded", status=503),
            **fields,  # type: ignore[arg-type]
        )

    def replied(self, text: str = "", *calls: ToolCall, reasoning: str = "", verdict: Verdict | None = None) -> Script:
        return self.add(
            ModelReplied(
                turn_id=self.turn_id,
                step_id=self.step_id,
                message=AssistantMessage(
                    text=text,
                    calls=calls,
                    reasoning=(Reasoning(text=reasoning),) if reasoning else (),
                    route=ROUTE,
                ),
                verdict=verdict or ("tool_calls" if calls else "complete"),
            )
        )

    def began(self, call: ToolCall, effect: Effect = "runs") -> Script:
        return self.add(
            ToolStarted(
                turn_id=self.turn_id,
                step_id=self.step_id,
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
                effect=effect,
                idempotency=idempotency_of(effect),
            )
        )

    def finished(self, call: ToolCall, output: str = "", *, took_ms: int = 20, **fields: object) -> Script:
        fields = {"outcome": "ok", "duration_ms": float(took_ms)} | fields
        ended = ToolEnded(
            turn_id=self.turn_id,
            step_id=self.step_id,
            call_id=call.id,
            name=call.name,
            output=output,
            **fields,  # type: ignore[arg-type]
        )
        return self.add(ended, wait_ms=took_ms)

    def ended(
        self,
        reason: StopReason = "stop",
        *,
        steps: int = 0,
        usage: Usage = UNSAID,
        cost_usd: float | None = None,
        context_size: int | None = None,
        text: str = "",
        detail: str = "",
        wait_ms: int = 0,
    ) -> Script:
        return self.add(
            TurnEnded(
                turn_id=self.turn_id,
                reason=reason,
                steps=steps or self._index,
                usage=usage,
                cost_usd=cost_usd,
                context_size=context_size,
                text=text,
                detail=detail,
            ),
            wait_ms=wait_ms,
        )


def call(number: int, name: str = "bash", arguments: str = '{"command": "pytest -q"}', **fields: str) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments, **fields)
