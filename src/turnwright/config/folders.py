"""Where Turnwright keeps things: `TURNWRIGHT_HOME` for all, else the XDG base directories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Folders(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute; none of them need exist yet."""

    config: Path
    """The user's `config.yaml`."""
    data: Path
    """The journal and run folders."""
    state: Path
    """What is known of routes, and logs."""
    cache: Path
    """What may be deleted at any time."""

    @property
    def user_config(self) -> Path:
        return self.config / "config.yaml"

    @property
    def journal(self) -> Path:
        return self.data / "journal"

    @property
    def runs(self) -> Path:
        return self.data / "runs"

    @property
    def trust(self) -> Path:
        return self.state / "trust.json"

    @property
    def always(self) -> Path:
        return self.state / "always.json"


def folders_of(environ: Mapping[str, str]) -> Folders:
    if home := environ.get("TURNWRIGHT_HOME"):
        root = Path(home).expanduser().absolute()
        return Folders(config=root, data=root / "data", state=root / "state", cache=root / "cache")
    return Folders(
        config=_xdg(environ, "XDG_CONFIG_HOME", ".config"),
        data=_xdg(environ, "XDG_DATA_HOME", ".local/share"),
        state=_xdg(environ, "XDG_STATE_HOME", ".local/state"),
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
    )


def project_root(workspace: Path) -> Path:
    """The repository's root; without a repository the workspace itself."""
    for folder in (workspace, *workspace.parents):
        # Not pathlib's: above the workspace there may be folders that are nobody's to look into.
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return folder
    return workspace


def folders_of_environment() -> Folders:
    return folders_of(os.environ)


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """The specification has relative values ignored."""
    told = Path(environ.get(variable) or "")
    if told.is_absolute():
        return told / "turnwright"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / fallback / "turnwright"
