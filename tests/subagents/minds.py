"""A model that has a mind for each conversation: what it says depends on what it was asked first, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnwright.providers.script import Call, Script, Step, Tokens
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.messages import AssistantMessage, ToolResults, UserMessage
from turnwright.schema.prompt import Prompt


def asks(*calls: Call, text: str = "", **more: Any) -> Step:
    return Step(text=text, calls=list(calls), **more)


def sends(brief: str, **arguments: Any) -> Call:
    return Call(name="task", arguments={"brief": brief, **arguments})


def minded(minds: Mapping[str, Sequence[Step]]) -> ScriptedModel:
    def step(prompt: Prompt) -> Step:
        brief = next(message.text for message in prompt.messages if isinstance(message, UserMessage))
        replies = sum(isinstance(message, AssistantMessage) for message in prompt.messages)
        steps = minds[brief]
        return steps[min(replies, len(steps) - 1)]

    return ScriptedModel(step)


def results(prompt: Prompt) -> list[str]:
    """What the last calls gave."""
    told = [message for message in prompt.messages if isinstance(message, ToolResults)]
    return [result.output for result in told[-1].results] if told else []


__all__ = ["Call", "Script", "Step", "Tokens", "asks", "minded", "results", "sends"]
