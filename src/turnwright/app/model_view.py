"""What the model is shown of a conversation: the fold that a running turn uses, over facts that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from turnwright.kernel.history import History
from turnwright.schema.facts import Recorded, ToolEnded
from turnwright.schema.messages import Message


def shown_to_model(facts: Sequence[Recorded], blob: Callable[[str], bytes | None]) -> Sequence[Message]:
    """All of it, as of the last of these facts."""
    history = history_of(facts, blob)
    history.settle()
    return history.messages


def history_of(facts: Sequence[Recorded], blob: Callable[[str], bytes | None]) -> History:
    history = History(facts[0].conversation_id)
    for recorded in facts:
        fact = recorded.fact
        if isinstance(fact, ToolEnded) and fact.output_blob is not None:
            output = (blob(fact.output_blob.sha256) or b"").decode()
            fact = msgspec.structs.replace(fact, output=output, output_blob=None)
        history.apply(fact)
    return history
