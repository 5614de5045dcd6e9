"""Processes of the command line at a fraction of their price: everything is imported once, and every run is a fork.

Reads one JSON object a line, `{number, words, env, out, err}`, and runs `turnwright.cli.main.main(words)` for each in a
process of its own: own signals, own sockets, own event loop, own exit code. Says `{number, pid}` when it begins and
`{number, code}` when it is over; one that is killed says nothing more.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
from contextlib import suppress
from typing import Any

ROOMS = (
    "schema",
    "wire",
    "machine",
    "providers",
    "kernel",
    "tools",
    "journal",
    "views",
    "config",
    "session",
    "app",
    "cli",
)


def main() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"turnwright.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"turnwright.{room}."):
            with suppress(ImportError):  # an extra that is not here: the run that needs it will say so
                importlib.import_module(found.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they report by themselves
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _live(asked)
        say({"number": asked["number"], "pid": pid})


def say(what: dict[str, Any]) -> None:
    """In one write: many speak into the same pipe."""
    os.write(1, json.dumps(what).encode() + b"\n")


def _live(asked: dict[str, Any]) -> None:
    """Never returns."""
    from turnwright.cli.main import main as turnwright

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    report = os.dup(1)
    os.set_inheritable(report, False)
    code = 70
    try:
        os.environ.update(asked["env"])
        for fd, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, asked["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, fd)
            os.close(opened)
        code = turnwright(asked["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
        raise
    finally:
        os.write(report, json.dumps({"number": asked["number"], "code": code}).encode() + b"\n")
        os._exit(code)


if __name__ == "__main__":
    main()
