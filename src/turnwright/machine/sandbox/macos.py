"""The same reach in the words of macOS's own sandbox (`sandbox-exec`): a profile, in which the last rule that fits
decides. What nothing allows is denied."""

from __future__ import annotations

from collections.abc import Iterable

from turnwright.machine.sandbox.names import OF_GIT, RUNS_CODE
from turnwright.machine.sandbox.reach import Reach, credentials_of, writable_roots

PROGRAM = "/usr/bin/sandbox-exec"

_ALWAYS = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read* file-test-existence)
(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero"))
(allow file-write-data file-ioctl (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-write* (regex #"^/dev/ttys[0-9]+$"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.trustd.agent"))
"""


def profile(reach: Reach) -> str:
    """For `sandbox-exec -p`. A name that does not exist yet is refused like any other: these are rules, not mounts."""
    roots = writable_roots(reach)
    lines = [_ALWAYS + _rule("allow file-write*", (*roots, reach.temporary, reach.cache))]
    for root in roots:
        lines.append(_rule("deny file-write*", (f"{root}/{name}" for name in RUNS_CODE)))
        parts = "|".join(name.replace(".", r"\.") for name in OF_GIT)
        below = _escaped(root)
        lines.append(f'(deny file-write* (regex #"^{below}/(.*/)?\\.git/({parts})(/|$)"))')
        # Moving the folder away would take its guards with it.
        lines.append(f'(deny file-write-unlink (regex #"^{below}/(.*/)?\\.git$"))')
    lines.append(_rule("deny file-read* file-write*", credentials_of(reach)))
    lines.append(_rule("allow file-read*", reach.visible))
    lines.append("(allow network*)" if reach.network == "open" else '(allow network* (local ip "localhost:*"))')
    return "\n".join(line for line in lines if line) + "\n"


def _rule(what: str, paths: Iterable[str]) -> str:
    named = " ".join(f"(subpath {_quoted(path)})" for path in paths)
    return f"({what} {named})" if named else ""


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(path: str) -> str:
    """In a pattern, where a quote would end it."""
    return "".join(char if char.isalnum() or char in "/_-" else "." if char == '"' else f"\\{char}" for char in path)
