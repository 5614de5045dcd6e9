"""What is sent to the far side: the local machine itself, as source, and the little it stands on.

So a tool finds there what it finds here, by construction: the same opening beneath descriptors, the same wardens.
The far side needs a Python and nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from pathlib import Path

PYTHON_OLDEST = (3, 11)
LENGTH_DIGITS = 10

_SENT = ("machine", "schema")
_KEPT = ("machine/ssh/bundle.py", "machine/ssh/link.py", "machine/ssh/remote.py", "machine/ssh/far_msgspec.py")
_EPOCH = (2000, 1, 1, 0, 0, 0)


@functools.cache
def bundle() -> tuple[bytes, str]:
    """A zip file, and its hash."""
    root = Path(__file__).parents[2]
    files = {f"turnwright/{path.relative_to(root)}": path.read_bytes() for path in _sources(root)}
    files["msgspec/__init__.py"] = (root / "machine/ssh/far_msgspec.py").read_bytes()
    for package in ("turnwright", "turnwright/schema"):
        files[f"{package}/__init__.py"] = b""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as into:
        for name, content in sorted(files.items()):
            into.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    data = packed.getvalue()
    return data, hashlib.sha256(data).hexdigest()


def _sources(root: Path) -> list[Path]:
    found: list[Path] = []
    for sent in _SENT:
        found += sorted((root / sent).rglob("*.py")) if (root / sent).is_dir() else [root / sent]
    return [path for path in found if str(path.relative_to(root)) not in _KEPT and "versions" not in path.parts]


_STARTER = """
import sys
if sys.version_info < OLDEST: sys.exit(3)
import io, os, tempfile, zipfile
sys.stdout.buffer.write(b"MARK" + bytes([10]))
sys.stdout.buffer.flush()
def take(size):
    taken = b""
    while len(taken) < size:
        piece = os.read(0, size - len(taken))
        if not piece: sys.exit(1)
        taken += piece
    return taken
data = take(int(take(DIGITS)))
home = tempfile.mkdtemp(prefix="turnwright-")
zipfile.ZipFile(io.BytesIO(data)).extractall(home)
sys.path.insert(0, home)
sys.dont_write_bytecode = True
from turnwright.machine.ssh.far_side import main
main(home, "MARK")
"""

_LOOK = """
for each in python3 python3.14 python3.13 python3.12 python3.11; do
  command -v "$each" >/dev/null 2>&1 || continue
  "$each" -I -S -c "import sys; sys.exit(sys.version_info < OLDEST)" && exec "$each" -I -S -c "$starter" MARK
done
exit 3
"""

SHELL = "exec sh -s"
"""Short enough to mean the same to every login shell. What it is to do comes in on its input."""

NO_PYTHON = 3
"""The exit code where the far side has no Python that is new enough."""


def first_words(mark: str) -> bytes:
    """For that shell. `mark` tells where what comes back is ours, after whatever a login writes by itself; and it
    stands in the arguments, by which a program of ours that a lost connection left behind is found again."""
    import shlex

    script = f"starter={shlex.quote(_STARTER)}\n{_LOOK}"
    return (
        script.replace("OLDEST", repr(PYTHON_OLDEST))
        .replace("DIGITS", str(LENGTH_DIGITS))
        .replace("MARK", mark)
        .encode()
    )
