"""Watch a turn while it runs: facts, which are in the journal already, and live events, which are not.

python examples/stream_events.py
python examples/stream_events.py anthropic/claude-sonnet-4-5
"""

import asyncio
import sys
import tempfile

from turnwright import Agent, Recorded
from turnwright.schema.facts import ToolEnded, ToolStarted, TurnEnded
from turnwright.schema.live import TextDelta
from turnwright.testing import Call, ScriptedModel, Step

SCRIPT = [
    Step(
        text="I write the file.",
        calls=[Call(name="write", arguments={"path": "hello.txt", "content": "hello\n"})],
    ),
    Step(text="The file says hello."),
]


async def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(SCRIPT)
    with tempfile.TemporaryDirectory() as workspace:
        async for event in Agent(model, workspace=workspace).stream("Write hello.txt."):
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case Recorded(seq=seq, fact=ToolStarted(name=name, arguments=arguments)):
                    print(f"\n{seq:3}  {name} {arguments}")
                case Recorded(seq=seq, fact=ToolEnded(name=name, outcome=outcome)):
                    print(f"{seq:3}  {name}: {outcome}")
                case Recorded(seq=seq, fact=TurnEnded(reason=reason)):
                    print(f"\n{seq:3}  the turn ended: {reason}")
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main())
