"""Tools whose results bring the instructions of the folders that they touch."""

from __future__ import annotations

from typing import Any

import msgspec

from turnwright.app.instructions import NestedInstructions
from turnwright.kernel.ports import ToolContext, Tools
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import Asks, Ready, ToolOutcome, Unfit


class InstructedTools:
    """`kernel.ports.Tools` over others. A call touches the folder that its `path` lies in."""

    def __init__(self, tools: Tools, nested: NestedInstructions) -> None:
        self._tools = tools
        self._nested = nested

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        return self._tools.offered(mode)

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        return self._tools.check(name, arguments)

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        outcome = await self._tools.run(name, arguments, context)
        path = arguments.get("path")
        if not isinstance(path, str) or outcome.outcome != "ok":
            return outcome
        found = self._nested.touching(path)
        return msgspec.structs.replace(outcome, output=f"{outcome.output}\n\n{found}") if found else outcome
