"""`TURNWRIGHT_*` variables as a layer: two underscores between levels, letters of any case.

    TURNWRIGHT_MODEL=openai/gpt-5                   model
    TURNWRIGHT_LOOP__LIMITS__MAX_STEPS=50           loop.limits.max_steps
    TURNWRIGHT_PROVIDERS__LOCAL__BASE_URL=http://…  providers.local.base_url
    TURNWRIGHT_TOOLS__INCLUDE=read,grep             a list, with commas

Names that a user gives are lower case here; one that needs capitals or dots belongs in a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from turnwright.config.layers import Layer, Place, Said, layer_of

PREFIX = "TURNWRIGHT_"
NOT_SETTINGS = frozenset({"TURNWRIGHT_HOME"})
TESTS = "TURNWRIGHT_TEST_"
"""Variables of the test fakes; no setting begins with it."""


def process_environment() -> Mapping[str, str]:
    """This process's variables, for whoever must hand them on: nobody else reads them."""
    return os.environ


def environment_layer(environ: Mapping[str, str]) -> Layer:
    return layer_of(_said(environ), textual=True)


def _said(environ: Mapping[str, str]) -> Iterator[Said]:
    for variable, value in sorted(environ.items()):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and not variable.startswith(TESTS):
            path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
            yield Said(path=path, value=value, place=Place(layer="environment", where=variable))
