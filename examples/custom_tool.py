"""A tool of your own: a typed function with a docstring.

python examples/custom_tool.py                    # a scripted model, no key, no network
python examples/custom_tool.py openai/gpt-5       # a real one
"""

import sys
import tempfile

from turnwright import Agent, Limits, ToolFailure, tool
from turnwright.testing import Call, ScriptedModel, Step

STOCK = {"apples": 12, "pears": 0}


@tool(effect="reads")
def stock(item: str) -> int:
    """How many of an item are in the warehouse.

    Args:
        item: its name in the plural, lower case
    """
    if item not in STOCK:
        raise ToolFailure(f"There are no {item} in the catalogue. There are: {', '.join(STOCK)}.")
    return STOCK[item]


SCRIPT = [
    Step(calls=[Call(name="stock", arguments={"item": "apples"}), Call(name="stock", arguments={"item": "plums"})]),
    Step(text="There are 12 apples. Plums are not sold here."),
]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(SCRIPT)
    with tempfile.TemporaryDirectory() as workspace:
        agent = Agent(model, tools=[stock], workspace=workspace, limits=Limits(max_steps=5))
        answer = agent.run_sync("How many apples and plums do we have?")
    print(answer.text)
    print(f"{answer.reason} after {answer.steps} steps")


if __name__ == "__main__":
    main()
