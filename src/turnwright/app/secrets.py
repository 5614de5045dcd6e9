"""One masker for everything that a process writes: its own keys, and whatever its environment and settings hold."""

from __future__ import annotations

from collections.abc import Mapping

from turnwright.config.environment import process_environment
from turnwright.config.load import Loaded
from turnwright.config.secrets import secrets_of
from turnwright.schema.masking import Masker, learn


def masker_of(loaded: Loaded | None, environ: Mapping[str, str] | None = None) -> Masker:
    """From now on no message of this process shows them either."""
    masker = Masker(
        secrets_of(process_environment() if environ is None else environ, None if loaded is None else loaded.settings)
    )
    learn(masker)
    return masker
