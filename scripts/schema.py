"""The JSON Schema documents: write them, check them, release them.

usage: schema.py [--write | --check | --release]
    --write    bring src/turnwright/schema/generated up to date
    --check    fail where it is not, or where something breaks what was released (the default)
    --release  take what is generated as released
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from turnwright.schema.json_schema import DOCUMENTS, RELEASED, breaking_changes, document, encoded

SCHEMA = Path(__file__).resolve().parent.parent / "src" / "turnwright" / "schema"


def stale(generated: Path) -> list[str]:
    """Documents on disk that are not what the code says."""
    return [name for name in DOCUMENTS if _read(generated / f"{name}.json") != encoded(document(name))]


def broken(released: Path) -> list[str]:
    """What a reader of the released documents would stumble over."""
    found = []
    for name in RELEASED:
        path = released / f"{name}.json"
        if path.exists():
            found += [f"{name}: {change}" for change in breaking_changes(json.loads(path.read_bytes()), document(name))]
    return found


def write(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.json").write_bytes(encoded(document(name)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--write", "--check", "--release"):
        parser.add_argument(option, action="store_true")
    args = parser.parse_args()
    if args.write or args.release:
        write(SCHEMA / "generated", DOCUMENTS)
    if args.release:
        write(SCHEMA / "released", RELEASED)
    problems = [f"{name}.json is not what the code says: python3 dev.py write" for name in stale(SCHEMA / "generated")]
    problems += [f"breaking change: {change}" for change in broken(SCHEMA / "released")]
    print("\n".join(problems) or "the schema is up to date and breaks nothing that was released")
    return 1 if problems else 0


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


if __name__ == "__main__":
    sys.exit(main())
