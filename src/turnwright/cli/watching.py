"""Show a turn while it runs, keep its run folder, and say with which code to leave."""

from __future__ import annotations

import sys
from pathlib import Path

from turnwright.app.engine import Engine
from turnwright.app.run_folders import write_run_folder
from turnwright.app.running import Running
from turnwright.cli import event_loop
from turnwright.cli.faces import face_of
from turnwright.cli.output import Output, Shown, show
from turnwright.cli.wording import sentence_of
from turnwright.schema.ids import ConversationId


async def watched(running: Running, engine: Engine, output: Output) -> int:
    """The exit code of the turn (U2)."""
    shown = await shown_turn(running, engine, output)
    if output != "text" and shown.result is not None and shown.result.is_error:
        # Whoever looks only at the exit code and stderr is told too, as by every other error.
        print(f"turnwright: {sentence_of(shown.result)}", file=sys.stderr)
    await kept_run_folder(running.conversation_id, engine)
    return shown.exit_code


async def shown_turn(running: Running, engine: Engine, output: Output) -> Shown:
    with event_loop.stopping(running.stop), face_of(output, engine) as face:
        return await show(running, face)


async def kept_run_folder(conversation_id: ConversationId, engine: Engine, diff: bytes | None = None) -> Path | None:
    """Writing it never fails a turn (V1): the journal has everything, and the folder can be made again."""
    try:
        return await write_run_folder(engine.journal, engine.loaded, conversation_id, diff=diff)
    except OSError as bad:
        print(f"turnwright: the run folder could not be written: {bad.filename}: {bad.strerror}.", file=sys.stderr)
        return None
