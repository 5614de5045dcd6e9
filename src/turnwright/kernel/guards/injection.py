"""Text that poses as the conversation's own: marks of chat templates, and orders to the model, in what the user pastes
and what tools return. A finding is a warning and nothing more: whoever quotes an attack is not attacking.

Plain strings are looked for and no patterns: foreign text must never freeze us.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import Judgement, Warn
from turnwright.schema.facts import Fact, SteeringDelivered, ToolEnded, TurnStarted
from turnwright.schema.guards import InjectionGuard

NAME = "injection"

TEMPLATE_MARKS = (
    "<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|eot_id|>", "<|start_header_id|>",
    "<|endoftext|>", "<start_of_turn>", "<end_of_turn>", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "<|channel|>",
)  # fmt: skip
ORDERS = (
    "ignore previous instructions", "ignore all previous instructions", "ignore the previous instructions",
    "ignore your instructions", "ignore all instructions", "disregard previous instructions",
    "disregard all previous instructions", "disregard your instructions", "forget your instructions",
    "forget all previous instructions", "override your instructions", "your new instructions are",
    "new system prompt:", "reveal your system prompt", "do not tell the user",
)  # fmt: skip


class Injection:
    def __init__(self, settings: InjectionGuard) -> None:
        self._settings = settings
        self._told = 0

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case TurnStarted(text=text) | SteeringDelivered(text=text):
                return self._found("the user's text", text, tell=False)
            case ToolEnded(output=output) if fact.outcome != "refused":
                return self._found(f"the output of {fact.name}", output, tell=True)
            case _:
                return ()

    def _found(self, where: str, text: str, tell: bool) -> Sequence[Judgement]:
        kind, mark = finding(text)
        if not mark:
            return ()
        tell = tell and self._told < self._settings.told_max
        self._told += tell
        said = wording.said(NAME, wording.foreign_orders(where)) if tell else None
        why = f"{where} holds {kind}: {mark}"
        return [Warn(guard=NAME, why=why, said=said, evidence={"where": where, "kind": kind, "mark": mark})]


def finding(text: str) -> tuple[str, str]:
    """What kind of thing was found, and which; empty where nothing was."""
    lower = text.lower()
    if "<" in lower or "[" in lower:
        for mark in TEMPLATE_MARKS:
            if mark in lower:
                return "a mark of a chat template", mark
    if "instructions" in lower or "prompt" in lower or "the user" in lower:
        flat = " ".join(lower.split())
        for order in ORDERS:
            if order in flat:
                return "an order to the model", order
    return "", ""
