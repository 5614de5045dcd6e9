"""`turnwright escalate`: the vendor kit."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from pathlib import Path

from turnwright.app.escalation import vendor_kit
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, loaded_config
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded, StepStarted


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="ID[:STEP]", help="a conversation, or one step of it, counted from 0")
    parser.add_argument("--to", metavar="FILE", help="the zip (default: turnwright-ID.zip here)")
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    name, colon, step = args.conversation.partition(":")
    if colon and re.fullmatch(r"[0-9]{1,9}", step) is None:
        raise InputError(f"{args.conversation!r} is not a step.", remedy="Write ID:STEP, with STEP from 0.")

    async def main() -> tuple[str, bytes]:
        async with open_for_reading(loaded) as journal:
            conversation_id = await named_conversation(journal, name)
            facts = await facts_of(journal, conversation_id)
            kit = await vendor_kit(journal, loaded, facts, _step_id(facts, int(step)) if colon else None)
        return conversation_id, kit

    conversation_id, kit = asyncio.run(main())
    path = Path(args.to or f"turnwright-{conversation_id}.zip")
    try:
        path.write_bytes(kit)
    except OSError as bad:
        raise InputError(f"{path} cannot be written: {bad.strerror}.", remedy="Name another with --to.") from bad
    sys.stdout.write(f"{path}\n")
    return 0


def _step_id(facts: list[Recorded], number: int) -> str:
    """Steps are counted over the whole conversation, as in its run folder."""
    steps = [each.fact.step_id for each in facts if isinstance(each.fact, StepStarted)]
    if number >= len(steps):
        raise InputError(f"There is no step {number}.", remedy=f"The conversation has {len(steps)}, counted from 0.")
    return steps[number] or ""
