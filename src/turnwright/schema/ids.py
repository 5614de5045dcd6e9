"""Names of things. All ids are made by the ids port; here only their shape is known."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

ConversationId: TypeAlias = str
TurnId: TypeAlias = str
StepId: TypeAlias = str
CallId: TypeAlias = str
Seq: TypeAlias = int


class Prefix(NamedTuple):
    """The facts of a conversation up to one: what a fork shares."""

    conversation_id: ConversationId
    through: Seq


CONVERSATION_ID = re.compile(r"c_[0-9a-z]{20}")
"""What a conversation id looks like; faces refuse anything else before it reaches a journal or a path."""


def step_id(turn_id: TurnId, index: int) -> StepId:
    return f"{turn_id}#{index}"
