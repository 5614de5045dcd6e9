"""How each dialect and each host is asked to think, or not to."""

from __future__ import annotations

from typing import Any

import pytest
from codec_samples import prompt_of, request

from turnwright.providers.codec import Dialect, Quirks
from turnwright.providers.dialects import codec_of
from turnwright.providers.profiles import PROFILES
from turnwright.schema.messages import AssistantMessage, Reasoning, ToolCall, ToolResult, ToolResults, UserMessage

HI = UserMessage(text="Hi")


def sent(dialect: Dialect, wanted: bool | None, quirks: Quirks, **more: Any) -> Any:
    return request(codec_of(dialect), prompt_of(HI, reasoning=wanted, **more), quirks, stream=False)


def told(dialect: Dialect, wanted: bool | None, quirks: Quirks) -> dict[str, Any]:
    """What a request says beyond one that says nothing of thinking."""
    plain = sent(dialect, None, quirks)
    return {key: value for key, value in sent(dialect, wanted, quirks).items() if plain.get(key, ...) != value}


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", {"reasoning_effort": "high"}, {"reasoning_effort": "low"}),
    ("groq", {"reasoning_effort": "high"}, {"reasoning_effort": "low"}),
    ("openrouter", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
    ("deepseek", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
    ("mistral", {"prompt_mode": "reasoning"}, {"prompt_mode": None}),
    ("together", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
    (
        "vllm",
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ),
    ("ollama", {"think": True}, {"think": False}),
    (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 512}}},
    ),
    ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 4096}}, {"thinking": {"type": "disabled"}}),
]


@pytest.mark.parametrize(("host", "on", "off"), CASES, ids=[case[0] for case in CASES])
def test_each_host_is_asked_in_its_own_way(host: str, on: dict[str, Any], off: dict[str, Any]) -> None:
    profile = PROFILES[host]
    assert told(profile.dialect, True, profile.quirks) == on
    assert told(profile.dialect, False, profile.quirks) == off


def test_responses_have_a_field_of_their_own() -> None:
    assert told("openai-responses", True, Quirks()) == {"reasoning": {"effort": "high"}}
    assert told("openai-responses", False, Quirks()) == {"reasoning": {"effort": "low"}}


def test_the_user_knows_better() -> None:
    quirks = Quirks(reasoning_on={"effort": 11}, reasoning_off={})
    assert told("openai-chat", True, quirks) == {"effort": 11}
    assert told("openai-chat", False, quirks) == {}


def test_anthropic_thinks_within_its_limits() -> None:
    quirks = PROFILES["anthropic"].quirks
    body = sent("anthropic", True, quirks, max_output_tokens=1000, temperature=0.9)
    assert (body["max_tokens"], "temperature" in body) == (8192, False)
    body = sent("anthropic", False, quirks, max_output_tokens=1000, temperature=0.9)
    assert (body["max_tokens"], body["temperature"]) == (1000, 0.9)


def test_anthropic_does_not_begin_to_think_amid_calls() -> None:
    """A reply whose calls are being answered must have begun with a thought."""
    quirks = PROFILES["anthropic"].quirks

    def body(*reasoning: Reasoning) -> Any:
        call = ToolCall(id="a", name="read", arguments="{}")
        replied = AssistantMessage(calls=(call,), reasoning=reasoning, route="r")
        results = ToolResults(results=(ToolResult(call_id="a", name="read", output="x"),))
        return request(codec_of("anthropic"), prompt_of(HI, replied, results, reasoning=True), quirks)

    assert "thinking" not in body()
    assert "thinking" in body(Reasoning(text="hm", signature="s"))
