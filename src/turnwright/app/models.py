"""From a model's name to something that answers. Heavy parts are imported for the kind that is used."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from turnwright.config.load import Loaded
from turnwright.kernel.ports import Clock, Model
from turnwright.schema.errors import ConfigError

DEMO = "demo"
"""The model of `turnwright demo`, so that its conversation can be carried on."""
SCRIPTED = "scripted/"


async def opened_model(
    stack: AsyncExitStack, loaded: Loaded, environ: Mapping[str, str], clock: Clock, api_key: str | None
) -> tuple[Model, str | None]:
    """The model that the settings name, and its key where it has one. What it opens is closed with `stack`."""
    name = loaded.settings.model
    if not name:
        raise ConfigError(
            "No model is chosen.",
            remedy="Give --model provider/name, or set `model` in config.yaml or TURNWRIGHT_MODEL.",
        )
    if name == DEMO:
        from turnwright.app.demo import demo_model

        return demo_model(), None
    if name.startswith(SCRIPTED):
        from turnwright.providers.script import read_script
        from turnwright.providers.scripted import ScriptedModel

        return ScriptedModel(read_script(Path(name.removeprefix(SCRIPTED))), clock=clock), None
    raise ConfigError(f"unknown {name} {environ and api_key} {stack}")
