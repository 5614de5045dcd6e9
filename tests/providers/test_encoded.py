from __future__ import annotations

import msgspec
import pytest

from turnwright.providers.codec import Quirks
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.providers.encoded import EncodedMessages
from turnwright.schema.messages import AssistantMessage, Message, Reasoning, UserMessage
from turnwright.schema.prompt import Prompt, Section

QUIRKS = Quirks(reasoning_replay="always")


class Counting(OpenAIChat):
    """Says how many messages it was asked to encode."""

    def __init__(self) -> None:
        self.encoded = 0

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        self.encoded += 1
        return super().encode_message(message, route, quirks)


def prompt(messages: list[Message], lineage: str = "l") -> Prompt:
    return Prompt(lineage=lineage, system=(Section("s", "x"),), messages=messages)


def said(number: int) -> list[Message]:
    return [UserMessage(text=f"question {number}"), AssistantMessage(text=f"answer {number}", route="r")]


def test_each_message_is_encoded_once() -> None:
    codec, cache = Counting(), EncodedMessages()
    messages: list[Message] = []
    for number in range(50):
        messages += said(number)
        joined = cache.of(prompt(messages), codec, "r", QUIRKS)
        assert codec.encoded == len(messages)
    assert joined == EncodedMessages().of(prompt(messages), Counting(), "r", QUIRKS)
    assert len(msgspec.json.decode(b"[" + joined + b"]")) == 100


def test_a_prefix_keeps_its_bytes() -> None:
    cache, codec = EncodedMessages(), OpenAIChat()
    first = bytes(cache.of(prompt(said(1)), codec, "r", QUIRKS))
    assert cache.of(prompt([*said(1), *said(2)]), codec, "r", QUIRKS).startswith(first + b",")


@pytest.mark.parametrize(
    "messages", [[], said(1)[:1], said(2), [said(1)[0], AssistantMessage(text="changed"), UserMessage(text="more")]]
)
def test_a_lineage_that_did_not_only_grow_is_encoded_anew(messages: list[Message]) -> None:
    cache = EncodedMessages()
    cache.of(prompt(said(1)), OpenAIChat(), "r", QUIRKS)
    anew = EncodedMessages().of(prompt(messages), OpenAIChat(), "r", QUIRKS)
    assert cache.of(prompt(messages), OpenAIChat(), "r", QUIRKS) == anew


def test_routes_and_quirks_do_not_share_bytes() -> None:
    """Reasoning goes back to its own route only."""
    cache, codec = EncodedMessages(), OpenAIChat()
    messages: list[Message] = [AssistantMessage(text="a", reasoning=(Reasoning(text="hidden"),), route="r")]
    assert b"hidden" in cache.of(prompt(messages), codec, "r", QUIRKS)
    assert b"hidden" not in cache.of(prompt(messages), codec, "other", QUIRKS)
    assert b"hidden" not in cache.of(prompt(messages), codec, "r", Quirks())
    assert b"hidden" in cache.of(prompt(messages), codec, "r", QUIRKS)


def test_the_least_recently_used_goes_first() -> None:
    codec, cache = Counting(), EncodedMessages(lineages_max=2)
    for lineage in ("a", "b", "a", "c", "a"):
        cache.of(prompt(said(1), lineage), codec, "r", QUIRKS)
    assert codec.encoded == 6
    cache.of(prompt(said(1), "b"), codec, "r", QUIRKS)
    assert codec.encoded == 8


def test_what_is_kept_is_bounded_in_bytes() -> None:
    codec, cache = Counting(), EncodedMessages(bytes_max=100)
    for lineage in ("a", "b", "b", "a"):
        cache.of(prompt(said(1), lineage), codec, "r", QUIRKS)
    assert codec.encoded == 6
