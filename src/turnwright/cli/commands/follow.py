"""`turnwright follow`: catch up, then watch. Facts only: live events stay in the process that runs the turn."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import aclosing

from turnwright.app.clock import SystemClock
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.output import Face, StreamFace
from turnwright.cli.terminal import Terminal
from turnwright.cli.text_face import TextFace
from turnwright.cli.wording import Level
from turnwright.schema.facts import Recorded, TurnEnded
from turnwright.views.result import ResultState, fold_result


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("--since", metavar="SEQ", type=int, default=0, help="only what came after this number")
    parser.add_argument("--until-idle", action="store_true", help="leave when no turn is running")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            conversation_id = await named_conversation(journal, args.conversation)
            known = await facts_of(journal, conversation_id)
            shown = _Shown(args.json, loaded.settings.logging.level)
            idle = isinstance(known[-1].fact, TurnEnded)
            if args.until_idle and idle:
                for recorded in known[args.since :]:
                    shown.fact(recorded)
                return 0
            async with aclosing(journal.follow(conversation_id, args.since)) as facts:  # type: ignore[type-var]
                async for recorded in facts:
                    shown.fact(recorded)
                    if args.until_idle and recorded.seq >= known[-1].seq and isinstance(recorded.fact, TurnEnded):
                        return 0
        return 0

    return asyncio.run(main())


class _Shown:
    """Every fact as it is, or as the process that runs the turn would show it: then each turn ends with its answer."""

    def __init__(self, as_json: bool, level: Level) -> None:
        self._face: Face = StreamFace(sys.stdout.buffer) if as_json else _text_face(level)
        self._answers = not as_json
        self._result = ResultState()

    def fact(self, recorded: Recorded) -> None:
        self._face.fact(recorded)
        self._result = fold_result(self._result, recorded)
        if self._answers and isinstance(recorded.fact, TurnEnded) and self._result.result is not None:
            self._face.ended(self._result.result)


def _text_face(level: Level) -> Face:
    return TextFace(Terminal(sys.stdout), Terminal(sys.stderr), level=level, monotonic=SystemClock().monotonic)
