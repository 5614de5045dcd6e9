"""Tools whose results are masked before anybody sees them, the model and history included: what is masked only on its
way to disk would read differently after a resume, and break the prompt's prefix."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from turnwright.kernel.ports import ToolContext, Tools
from turnwright.schema.masking import Masker
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import Asks, Ready, ToolOutcome, Unfit


class MaskedTools:
    """`kernel.ports.Tools` over others."""

    def __init__(self, tools: Tools, masker: Masker) -> None:
        self._tools = tools
        self._masker = masker

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        return self._tools.offered(mode)

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        return self._tools.check(name, arguments)

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        outcome = await self._tools.run(name, arguments, _MaskedContext(context, self._masker))
        shown = self._masker(outcome.output)
        return outcome if shown == outcome.output else msgspec.structs.replace(outcome, output=shown)


class _MaskedContext:
    def __init__(self, context: ToolContext, masker: Masker) -> None:
        self.turn_id, self.step_id, self.call_id = context.turn_id, context.step_id, context.call_id
        self.ask, self.delegate = context.ask, context.delegate
        self._context = context
        self._masker = masker

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        self._context.output(self._masker(text), stream)
