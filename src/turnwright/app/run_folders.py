"""The run folder on disk (V1): written from the journal when a run is over. Its failure never fails the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwright import __version__
from turnwright.app.reading import blobs_of
from turnwright.config.explain import shown_settings
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.schema.ids import ConversationId
from turnwright.views.run_folder import run_folder

RUNS_FOLDER = "runs"


def run_folder_of(data: Path, conversation_id: ConversationId, at_ms: int) -> Path:
    """`<runs>/<UTC YYYYmmdd-HHMMSS>_<id>`."""
    from datetime import UTC, datetime

    return data / RUNS_FOLDER / f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%d-%H%M%S}_{conversation_id}"


async def write_run_folder(
    journal: Journal, loaded: Loaded, conversation_id: ConversationId, *, diff: bytes | None = None
) -> Path:
    """Everything of the conversation so far. Raises OSError, which the caller reports and goes on."""
    facts = await journal.since(conversation_id)
    folder = run_folder_of(loaded.folders.data, conversation_id, facts[0].at if facts else 0)
    blobs = await blobs_of(journal, facts)
    run: Mapping[str, Any] = {
        "conversation_id": conversation_id,
        "turnwright": __version__,
        "config": shown_settings(loaded.settings),
        "config_files": [str(path) for path in loaded.files],
    }
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    begun: set[str] = set()
    for name, content in run_folder(facts, run, diff=diff, blob=blobs.get):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if name in begun else os.O_TRUNC)
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
        begun.add(name)
    return folder
