"""The documents say what the code does, and a change that breaks a reader is found."""

import copy
from collections.abc import Callable

import pytest

from turnwright.schema.facts import FACT_TYPES
from turnwright.schema.json_schema import DOCUMENTS, Document, breaking_changes, document, encoded


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_the_same_every_time(name: str) -> None:
    assert encoded(document(name)) == encoded(document(name))


@pytest.mark.parametrize("name", ["facts", "live"])
def test_nothing_changed_breaks_nothing(name: str) -> None:
    assert list(breaking_changes(document(name), document(name))) == []


def test_facts_carry_their_envelope() -> None:
    facts = document("facts")
    assert set(facts["discriminator"]["mapping"]) == set(FACT_TYPES)
    note = facts["$defs"]["Note"]
    assert note["required"] == ["schema_version", "conversation_id", "seq", "at", "visibility", "type", "code", "text"]
    assert note["properties"]["visibility"] == {"enum": ["audit", "host", "model"]}


def test_settings_have_providers_by_name() -> None:
    providers = document("settings")["$defs"]["Providers"]
    assert "default" in providers["properties"] and "named" not in providers["properties"]
    assert providers["additionalProperties"] == {"$ref": "#/$defs/Provider"}


def without_type(facts: Document) -> None:
    del facts["discriminator"]["mapping"]["note"]


def without_field(facts: Document) -> None:
    del facts["$defs"]["TurnEnded"]["properties"]["steps"]


def without_nested_field(facts: Document) -> None:
    del facts["$defs"]["Usage"]["properties"]["input"]


def other_type(facts: Document) -> None:
    facts["$defs"]["StepStarted"]["properties"]["index"] = {"type": "string"}


def may_be_null(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["detail"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def one_more_alternative(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["cost_usd"]["anyOf"].append({"type": "string"})


def one_alternative_less(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["cost_usd"]["anyOf"].pop()


def newly_required(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["colour"] = {"type": "string"}
    facts["$defs"]["TurnEnded"]["required"].append("colour")


def begins_to_be_required(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["required"].append("steps")


def no_longer_required(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["required"].remove("reason")


def value_gone(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["reason"]["enum"].remove("stop")


def other_items(facts: Document) -> None:
    facts["$defs"]["AssistantMessage"]["properties"]["calls"]["items"] = {"type": "string"}


def other_values(facts: Document) -> None:
    facts["$defs"]["StepStarted"]["properties"]["segments"]["additionalProperties"] = {"type": "integer"}


BREAKING = [
    (without_type, "type note is gone"),
    (without_field, "turn.ended.steps is gone"),
    (without_nested_field, "attempt.ended.usage.input is gone"),
    (other_type, "step.started.index was integer and is string"),
    (may_be_null, "turn.ended.detail was string and is string or null"),
    (one_more_alternative, "turn.ended.cost_usd may now be string"),
    (one_alternative_less, "turn.ended.cost_usd may no longer be null"),
    (newly_required, "turn.ended.colour is now required"),
    (begins_to_be_required, "turn.ended.steps is now required"),
    (no_longer_required, "turn.ended.reason was always there and may now be left out"),
    (value_gone, "turn.ended.reason may no longer be 'stop'"),
    (other_items, "model.replied.message.calls[] was ToolCall and is string"),
    (other_values, "step.started.segments[] was string and is integer"),
]


@pytest.mark.parametrize(("change", "said"), BREAKING, ids=[change.__name__ for change, _ in BREAKING])
def test_a_breaking_change_is_named(change: Callable[[Document], None], said: str) -> None:
    old, new = document("facts"), copy.deepcopy(document("facts"))
    change(new)
    assert said in list(breaking_changes(old, new))


def another_type(facts: Document) -> None:
    facts["$defs"]["New"] = {"type": "object", "properties": {}, "required": []}
    facts["discriminator"]["mapping"]["new"] = "#/$defs/New"


def another_field(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["colour"] = {"type": "string", "default": ""}


def another_value(facts: Document) -> None:
    facts["$defs"]["TurnEnded"]["properties"]["reason"]["enum"].append("bored")


@pytest.mark.parametrize("change", [another_type, another_field, another_value], ids=lambda change: change.__name__)
def test_an_addition_breaks_nothing(change: Callable[[Document], None]) -> None:
    old, new = document("facts"), copy.deepcopy(document("facts"))
    change(new)
    assert list(breaking_changes(old, new)) == []
