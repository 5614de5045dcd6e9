"""What it would cost to go on with a conversation here and now: what is not sent as it was is bought again (R6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnwright.app.continuing import Continued
from turnwright.app.engine import open_engine
from turnwright.app.model_view import history_of
from turnwright.app.reading import blobs_of
from turnwright.kernel.prefix import BoughtAgain, bought_again
from turnwright.schema.errors import ConfigError, CredentialsError
from turnwright.schema.facts import AttemptStarted, ModeChanged, Recorded, TurnStarted
from turnwright.schema.routes import NoRoute


def _mode_of(facts: Sequence[Recorded]) -> str:
    """The one to which the last turn had come: what is carried on stays in it."""
    mode = ""
    for each in facts:
        match each.fact:
            case TurnStarted(mode=now) | ModeChanged(after=now):
                mode = now
            case _:
                pass
    return mode


async def bought_by_going_on(found: Continued, workspace: Path, mode: str) -> BoughtAgain | None:
    """None where nothing is, and where there is no model to go on with."""
    routes = [one.fact.route for one in found.facts if isinstance(one.fact, AttemptStarted)]
    if not routes:
        return None
    try:
        async with (
            open_engine(found.loaded, label="resume") as engine,
            engine.session(workspace, mode=mode, errand=found.errand) as session,
        ):
            route = session.model.route(())
            if isinstance(route, NoRoute):
                return None
            blobs = await blobs_of(engine.journal, found.facts)
            history = history_of(found.facts, blobs.get)
            mode = mode or _mode_of(found.facts) or session.mode
            prompt = await session.context.prompt(history, session.tools.offered(mode), mode)
            return bought_again(history, session.context.segments(prompt), route, routes[-1])
    except (ConfigError, CredentialsError):
        return None  # said by whoever goes on; looking needs no key
