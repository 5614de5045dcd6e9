"""Tools whose results are masked before anybody sees them, the model and history included: what is masked only on its
way to disk would read differently after a resume, and break the prompt's prefix."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.kernel.ports import ToolContext, Tools
from turnwright.schema.masking import Masker
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.streamed_secrets import Beginnings, StreamMasker
from turnwright.schema.tools import Asks, Ready, ToolOutcome, Unfit

Stream: TypeAlias = Literal["stdout", "stderr"]


class MaskedTools:
    """`kernel.ports.Tools` over others."""

    def __init__(self, tools: Tools, masker: Masker) -> None:
        self._tools = tools
        self._masker = masker
        self._beginnings = Beginnings(masker)

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        return self._tools.offered(mode)

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        return self._tools.check(name, arguments)

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        masked = _MaskedContext(context, self._beginnings)
        try:
            outcome = await self._tools.run(name, arguments, masked)
        finally:
            masked.end()
        shown = self._masker(outcome.output)
        return outcome if shown == outcome.output else msgspec.structs.replace(outcome, output=shown)


class _MaskedContext:
    """A key may come in two pieces."""

    def __init__(self, context: ToolContext, beginnings: Beginnings) -> None:
        self.turn_id, self.step_id, self.call_id = context.turn_id, context.step_id, context.call_id
        self.ask, self.delegate = context.ask, context.delegate
        self._context = context
        self._beginnings = beginnings
        self._streams: dict[Stream, StreamMasker] = {}

    def output(self, text: str, stream: Stream = "stdout") -> None:
        if stream not in self._streams:
            self._streams[stream] = StreamMasker(self._beginnings)
        if shown := self._streams[stream].feed(text):
            self._context.output(shown, stream)

    def end(self) -> None:
        for name, stream in self._streams.items():
            if left := stream.end():
                self._context.output(left, name)
