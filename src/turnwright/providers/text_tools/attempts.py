"""Attempts at models that have no tools of their own: the prompt explains them, and the reply's text is read for calls.

It stands between a router and what sends requests, and has the shape of both. What comes out is what a native call
would be, so dispatch, guards and journal know no difference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from turnwright.providers.router import Attempts
from turnwright.providers.text_tools.dialects import Grammar, bound, writers
from turnwright.providers.text_tools.history import spoken
from turnwright.providers.text_tools.scan import State, begin, end, step
from turnwright.schema.messages import Message, RuntimeMessage
from turnwright.schema.parts import Closed, Part, Text
from turnwright.schema.prompt import Prompt, Section, ToolSpec
from turnwright.schema.routes import Route
from turnwright.schema.settings import TextDialect

LINEAGES_MAX = 256


class _Rendered(msgspec.Struct):
    """A history as it was last sent. `messages` is only ever appended to, as its source is."""

    last: Message | None
    messages: list[Message]


class _Bound(msgspec.Struct, frozen=True):
    tools: tuple[ToolSpec, ...]
    grammar: Grammar


class TextTools:
    """`dialects` says by the name of a route how calls are written on it; a route that is not in it has native tools.

    The lineage of a prompt is kept, though its messages are others: what is kept by lineage behind us is kept by route
    too, a route has one way of writing for good, and the bytes of an attempt are looked for under its conversation.
    """

    def __init__(self, attempts: Attempts, dialects: Mapping[str, tuple[TextDialect, ...]]) -> None:
        self._attempts = attempts
        self._dialects = dict(dialects)
        self._bound: dict[tuple[TextDialect, ...], _Bound] = {}
        self._rendered: OrderedDict[tuple[str, tuple[TextDialect, ...]], _Rendered] = OrderedDict()
        self._system: tuple[tuple[Section, ...], Section | None, tuple[Section, ...]] = ((), None, ())

    def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        dialects = self._dialects.get(route.name)
        if not dialects:
            return self._attempts.attempt(route, prompt)
        return self._read(route, prompt, dialects)

    async def _read(
        self, route: Route, prompt: Prompt, dialects: tuple[TextDialect, ...]
    ) -> AsyncGenerator[Sequence[Part], None]:
        grammar = self._grammar(dialects, prompt.tools)
        state = begin(grammar.notations)
        async with aclosing(self._attempts.attempt(route, self._spoken(prompt, dialects, grammar))) as stream:
            async for parts in stream:
                state, read = read_parts(state, parts)
                yield read  # even when all of it is held back: each batch is a sign of life

    def _spoken(self, prompt: Prompt, dialects: tuple[TextDialect, ...], grammar: Grammar) -> Prompt:
        behind = prompt.tools_behind and grammar.section is not None
        return msgspec.structs.replace(
            prompt,
            system=prompt.system if behind else self._told(prompt.system, grammar.section),
            tail=(RuntimeMessage(code="tools", text=grammar.section.text),) if behind and grammar.section else (),
            messages=self._messages(prompt, dialects),
            tools=(),
        )

    def _grammar(self, dialects: tuple[TextDialect, ...], tools: tuple[ToolSpec, ...]) -> Grammar:
        """The same tuple of tools comes with every step, while nothing changes."""
        kept = self._bound.get(dialects)
        if kept is None or kept.tools is not tools:
            kept = self._bound[dialects] = _Bound(tools, bound(dialects, tools))
        return kept.grammar

    def _told(self, system: tuple[Section, ...], section: Section | None) -> tuple[Section, ...]:
        """The same tuple for the same sections, as whoever made them did."""
        if section is None:
            return system
        if self._system[0] is not system or self._system[1] is not section:
            self._system = system, section, (*system, section)
        return self._system[2]

    def _messages(self, prompt: Prompt, dialects: tuple[TextDialect, ...]) -> list[Message]:
        name = prompt.lineage, dialects
        kept = self._rendered.pop(name, None)
        if kept is None or not _has_grown(kept, prompt.messages):
            kept = _Rendered(None, [])
        write = writers(dialects)
        for position in range(len(kept.messages), len(prompt.messages)):
            kept.last = prompt.messages[position]
            kept.messages.append(spoken(kept.last, write))
        self._rendered[name] = kept
        while len(self._rendered) > LINEAGES_MAX:
            self._rendered.popitem(last=False)
        return kept.messages


def read_parts(state: State, parts: Sequence[Part]) -> tuple[State, list[Part]]:
    """Text becomes text and calls; everything else passes. What is held comes out before the end of the attempt."""
    read: list[Part] = []
    for part in parts:
        if type(part) is Text:
            state, made = step(state, part.text)
            read += made
            continue
        if type(part) is Closed:
            read += end(state)
            state = begin(state.notations)
        read.append(part)
    return state, read


def _has_grown(kept: _Rendered, messages: Sequence[Message]) -> bool:
    """A lineage promises it; where the promise is broken, everything is rendered anew."""
    count = len(kept.messages)
    if len(messages) < count:
        return False
    return count == 0 or messages[count - 1] is kept.last or messages[count - 1] == kept.last
