"""`turnwright follow`: catch up, then watch: live from the process that runs the turn, else as the journal grows."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from functools import partial

from turnwright.app.clock import SystemClock
from turnwright.app.following import followed
from turnwright.app.host_client import Followed
from turnwright.app.reading import at_rest, named_conversation, no_conversation, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.output import Face, StreamFace, ticking
from turnwright.cli.terminal import Terminal
from turnwright.cli.text_face import TextFace
from turnwright.cli.wording import Level
from turnwright.schema.facts import Recorded, TurnEnded
from turnwright.schema.hosting import Behind, encode_message
from turnwright.schema.ids import Seq
from turnwright.views.result import ResultState, fold_result
from turnwright.views.text import Span, line, plural

HELD_POLL_S = 1.0


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
            newest = await journal.tail(conversation_id, 1)
            if not newest:
                raise no_conversation(conversation_id)
            until = newest[-1].seq if args.until_idle else None
            shown = _Shown(args.json, loaded.settings.logging.level)
            with shown.ticking():
                # Who holds it says whether a turn runs. The last fact does not: a turn that was killed has no end, and
                # what waits for the next one is admitted after the end.
                if until is not None and await at_rest(journal, conversation_id) is not None:
                    for recorded in await journal.since(conversation_id, args.since):
                        shown.event(recorded)
                    return 0
                watching = _watch(followed(loaded, journal, conversation_id, args.since), shown, until)
                if until is None:
                    await watching
                else:
                    await _first(watching, _all_is_shown(partial(at_rest, journal, conversation_id), shown))
        return 0

    return asyncio.run(main())


async def _watch(followed: AsyncGenerator[Followed, None], shown: _Shown, until: Seq | None) -> None:
    """`until`: leave with the first end of a turn that comes then or later."""
    async with aclosing(followed) as events:
        async for event in events:
            shown.event(event)
            if until is None or not isinstance(event, Recorded) or event.seq < until:
                continue
            if isinstance(event.fact, TurnEnded):
                return


async def _first(*ways: Coroutine[None, None, None]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all_is_shown(last_at_rest: Callable[[], Awaitable[Seq | None]], shown: _Shown) -> None:
    """Returns when nobody writes the conversation any more and nothing of it is left to show: a process that was killed
    ends no turn."""
    while True:
        await asyncio.sleep(HELD_POLL_S)
        last = await last_at_rest()
        if last is not None and shown.seq >= last:
            return


class _Shown:
    """Everything as it is, or as the process that runs the turn would show it: then each turn ends with its answer."""

    def __init__(self, as_json: bool, level: Level) -> None:
        self._json = as_json
        self.seq: Seq = 0
        """Of the last fact that was shown."""
        self._err = Terminal(sys.stderr)
        self._face: Face = StreamFace(sys.stdout.buffer) if as_json else self._text_face(level)
        self._result = ResultState()

    def event(self, event: Followed) -> None:
        match event:
            case Recorded():
                self._fact(event)
            case Behind():
                self._behind(event)
            case _:
                self._face.live(event)

    @contextmanager
    def ticking(self) -> Iterator[None]:
        task = asyncio.ensure_future(ticking(self._face)) if self._face.ticks else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()

    def _fact(self, recorded: Recorded) -> None:
        self._face.fact(recorded)
        self.seq = recorded.seq
        self._result = fold_result(self._result, recorded)
        if not self._json and isinstance(recorded.fact, TurnEnded) and self._result.result is not None:
            self._face.ended(self._result.result)

    def _behind(self, behind: Behind) -> None:
        if self._json:
            sys.stdout.buffer.write(encode_message(behind) + b"\n")
        else:
            skipped = plural(behind.skipped, "live event")
            self._err.lines([line(Span(f"… fell behind: {skipped} left out, catching up from the journal", "dim"))])

    def _text_face(self, level: Level) -> Face:
        return TextFace(Terminal(sys.stdout), self._err, level=level, monotonic=SystemClock().monotonic)
