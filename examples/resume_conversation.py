"""Three turns of one conversation, the last of them by another agent: what was said is in the journal.

python examples/resume_conversation.py
python examples/resume_conversation.py openai/gpt-5
"""

import asyncio
import sys
import tempfile

from turnwright import Agent
from turnwright.testing import Expect, ScriptedModel, Step

FIRST = [Step(text="Noted: 4711."), Step(text="It was 4711.")]
SECOND = [Step(expect=Expect(messages=5), text="You asked twice for 4711.")]


async def main() -> None:
    real = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as workspace:
        async with Agent(real or ScriptedModel(FIRST), workspace=workspace) as agent:
            noted = await agent.run("Remember the number 4711.")
            asked = await agent.run("Which number?", conversation_id=noted.conversation_id)
        print(noted.text)
        print(asked.text)

        # Another process, or another day: all it needs is the id and the same data folder.
        later = Agent(real or ScriptedModel(SECOND), workspace=workspace)
        answer = await later.run("And what did I ask?", conversation_id=noted.conversation_id)
        print(answer.text)
        print(f"Read it with: turnwright show {answer.conversation_id}")


if __name__ == "__main__":
    asyncio.run(main())
