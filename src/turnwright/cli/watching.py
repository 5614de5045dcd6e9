"""Show a turn while it runs, host it, keep its run folder, and say with which code to leave."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from turnwright.app.engine import Engine
from turnwright.app.hosting import hosted
from turnwright.app.run_folders import run_folder_of, write_run_folder
from turnwright.app.running import Running
from turnwright.cli import event_loop
from turnwright.cli.detaching import Away
from turnwright.cli.faces import face_of
from turnwright.cli.output import Output, Shown, show
from turnwright.cli.wording import sentence_of
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId
from turnwright.session.broadcast import Event
from turnwright.session.questions import Questions


async def watched(
    running: Running,
    engine: Engine,
    output: Output,
    questions: Questions,
    away: Away | None = None,
    opened_at: int | None = None,
) -> int:
    """The exit code of the turn (U2). `opened_at`: when the conversation was begun, where that is not now."""
    async with hosted(engine, running.conversation, questions, required=away is not None):
        if away is None:
            shown = await shown_turn(running, engine, output)
            _told_on_stderr(shown, output)
        else:
            shown = await _shown_away(running, engine, away, opened_at)
        await kept_run_folder(running.conversation_id, engine)
    return shown.exit_code


def _told_on_stderr(shown: Shown, output: Output) -> None:
    """Whoever looks only at the exit code and stderr is told too, as by every other error."""
    if output != "text" and shown.result is not None and shown.result.is_error:
        print(f"turnwright: {sentence_of(shown.result)}", file=sys.stderr)


async def shown_turn(running: Running, engine: Engine, output: Output) -> Shown:
    with event_loop.stopping(running.stop), face_of(output, engine) as face:
        return await show(running, face)


async def _shown_away(running: Running, engine: Engine, away: Away, opened_at: int | None) -> Shown:
    """Into the log. Whoever waits for the id is told it once that is durable."""

    data = engine.loaded.folders.data

    async def announced() -> AsyncGenerator[Event, None]:
        async with aclosing(aiter(running)) as events:
            async for event in events:
                if not away.told and isinstance(event, Recorded):
                    at = event.at if opened_at is None else opened_at
                    away.tell(event.conversation_id, run_folder_of(data, event.conversation_id, at))
                yield event

    with event_loop.stopping(running.stop), face_of("text", engine, away.log) as face:
        async with aclosing(announced()) as events:
            return await show(events, face)


async def kept_run_folder(conversation_id: ConversationId, engine: Engine, diff: bytes | None = None) -> Path | None:
    """Writing it never fails a turn (V1): the journal has everything, and the folder can be made again."""
    try:
        return await write_run_folder(engine.journal, engine.loaded, conversation_id, diff=diff)
    except OSError as bad:
        print(f"turnwright: the run folder could not be written: {bad.filename}: {bad.strerror}.", file=sys.stderr)
        return None
