"""How many tokens the next request will have: what was reported of the last one, and what is new since (C4)."""

from __future__ import annotations

from copy import copy

from turnwright.schema.messages import AssistantMessage, Image, Message, RuntimeMessage, ToolResults, UserMessage
from turnwright.schema.parts import Usage

CHARS_PER_TOKEN = 4.0
"""Until a route has reported something."""
CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.0, 8.0
"""A report beyond these says more about the provider than about the text."""
IMAGE_CHARS = 6_000
"""What an image is taken for: providers count pixels, not base64."""


class Counts:
    """A fold over what was sent and what was reported of it. Each route counts in its own way."""

    def __init__(self) -> None:
        self.prefix_chars = 0
        """What stands before the history."""
        self.reported: int | None = None
        """The last request and its reply, in tokens; None once they say nothing about the next request."""
        self.route = ""
        self._known_chars = 0
        """The part of the history that `reported` stands for."""
        self._ratios: dict[str, float] = {}

    def copy(self) -> Counts:
        return copy(self)

    def sent(self, route: str, usage: Usage, history_chars: int) -> None:
        """A request with so much history in it was answered, and accounted for."""
        if not usage.input:
            return
        ratio = (self.prefix_chars + history_chars) / usage.input
        self._ratios = self._ratios | {route: min(max(ratio, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)}
        self.route = route
        self.reported = usage.input + (usage.output or 0)
        self._known_chars = history_chars

    def replied(self, message: AssistantMessage) -> None:
        """Its tokens are part of the report."""
        self._known_chars += chars_of(message)

    def history_changed(self) -> None:
        self.reported = None

    def chars_per_token(self, route: str) -> float:
        return self._ratios.get(route, CHARS_PER_TOKEN)

    def estimate(self, route: str, history_chars: int) -> int:
        per_token = self.chars_per_token(route)
        if self.reported is None or route != self.route:
            return int((self.prefix_chars + history_chars) / per_token)
        return self.reported + int(max(0, history_chars - self._known_chars) / per_token)


def chars_of(message: Message) -> int:
    match message:
        case UserMessage():
            return len(message.text) + _pictures(message.images)
        case RuntimeMessage():
            return len(message.text)
        case AssistantMessage():
            return len(message.text) + sum(len(call.arguments) + len(call.name) for call in message.calls)
        case ToolResults():
            return sum(len(result.output) + _pictures(result.images) for result in message.results)


def _pictures(images: tuple[Image, ...]) -> int:
    return IMAGE_CHARS * len(images)
