"""What a span is told as, by the names that were chosen: OpenTelemetry's own, those before them, or OpenInference's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from turnwright.schema.facts import AttemptEnded, AttemptStarted, ToolEnded, ToolStarted, TurnEnded, TurnStarted
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import GOOD_VERDICTS
from turnwright.views.spans import Span

Names: TypeAlias = Literal["current", "legacy", "openinference"]

PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Where the registry of names calls a provider otherwise than we do."""
SPAN_KINDS = {"turn": "AGENT", "step": "CHAIN", "attempt": "LLM", "tool": "TOOL"}


def named(span: Span, names: Names) -> dict[str, Any]:
    match names:
        case "current":
            return _current(span)
        case "legacy":
            return _legacy(_current(span))
        case "openinference":
            return _openinference(span)


def _current(span: Span) -> dict[str, Any]:
    """https://opentelemetry.io/docs/specs/semconv/gen-ai/"""
    common: dict[str, Any] = {"gen_ai.conversation.id": span.conversation_id}
    route = span.route or (span.opened.model if span.opened else "")
    asked = {"gen_ai.provider.name": _provider(route), "gen_ai.request.model": model_of(route)}
    match span.start_fact, span.end_fact:
        case TurnStarted(), ended:
            usage = ended.usage if isinstance(ended, TurnEnded) else Usage()
            agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "turnwright"}
            version = {"gen_ai.agent.version": span.opened.turnwright if span.opened else ""}
            return common | agent | version | asked | _tokens(usage) | _error(span)
        case AttemptStarted(), ended:
            answered = _answered(ended) if isinstance(ended, AttemptEnded) else {}
            return common | {"gen_ai.operation.name": "chat"} | asked | answered | _error(span)
        case ((ToolStarted(name=name, call_id=call_id) | ToolEnded(name=name, call_id=call_id)), _):
            tool = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id, "gen_ai.tool.type": "function"}
            return common | {"gen_ai.operation.name": "execute_tool"} | tool | _error(span)
        case _:
            return common


def _answered(ended: AttemptEnded) -> dict[str, Any]:
    finish = ended.finish_raw or ended.finish
    first_s = None if ended.timing.ttft_ms is None else ended.timing.ttft_ms / 1000
    return {
        "gen_ai.response.model": ended.model,
        "gen_ai.response.id": ended.request_id,
        "gen_ai.response.finish_reasons": (finish,) if finish else (),
        "gen_ai.response.time_to_first_chunk": first_s,
        **_tokens(ended.usage or Usage()),
    }


def _tokens(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def _error(span: Span) -> dict[str, Any]:
    match span.end_fact:
        case AttemptEnded(verdict=verdict, fault=fault) if verdict not in GOOD_VERDICTS:
            status = fault.status if fault else None
            failed = status if status is not None and status >= 400 else None
            return {"error.type": str(failed or verdict), "http.response.status_code": status}
        case ToolEnded(outcome=outcome) if outcome != "ok":
            return {"error.type": outcome}
        case TurnEnded(reason=reason) if reason != "stop":
            return {"error.type": reason}
        case _:
            return {}


_BEFORE = {
    "gen_ai.provider.name": "gen_ai.system",
    "gen_ai.usage.input_tokens": "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.output_tokens": "gen_ai.usage.completion_tokens",
}
_NOT_YET = frozenset(
    {
        "gen_ai.agent.version",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.reasoning.output_tokens",
    }
)


def _legacy(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """As tools know them that were made before the names changed."""
    return {_BEFORE.get(name, name): value for name, value in attributes.items() if name not in _NOT_YET}


def _openinference(span: Span) -> dict[str, Any]:
    """https://arize-ai.github.io/openinference/spec/semantic_conventions.html"""
    common: dict[str, Any] = {"openinference.span.kind": SPAN_KINDS[span.kind], "session.id": span.conversation_id}
    match span.start_fact, span.end_fact:
        case TurnStarted(), _:
            return common | {"agent.name": "turnwright"}
        case AttemptStarted(route=route), ended:
            asked = {
                "llm.provider": _provider(route),
                "llm.system": _provider(route),
                "llm.model_name": model_of(route),
            }
            return common | asked | (_counted(ended) if isinstance(ended, AttemptEnded) else {})
        case ((ToolStarted(name=name, call_id=call_id) | ToolEnded(name=name, call_id=call_id)), _):
            return common | {"tool.name": name, "tool.id": call_id}
        case _:
            return common


def _counted(ended: AttemptEnded) -> dict[str, Any]:
    usage = ended.usage or Usage()
    total = None if usage.input is None or usage.output is None else usage.input + usage.output
    return {
        "llm.token_count.prompt": usage.input,
        "llm.token_count.completion": usage.output,
        "llm.token_count.total": total,
        "llm.token_count.prompt_details.cache_read": usage.cache_read,
        "llm.token_count.prompt_details.cache_write": usage.cache_write,
        "llm.token_count.completion_details.reasoning": usage.reasoning,
        "llm.cost.total": ended.cost_usd,
    }


def _provider(route: str) -> str:
    provider = route.partition("/")[0]
    return PROVIDERS.get(provider, provider)


def model_of(route: str) -> str:
    return route.partition("/")[2] or route
