#!/usr/bin/env python3
"""Everything a newcomer needs, with nothing but Python 3.11 or newer.

usage: python3 dev.py COMMAND [ARGUMENT ...]

    demo      see a whole run, without a key or a network
    test      every check and every test, as CI runs them
    check     the checks alone: style, types, import contracts, schema, reference
    quick     the quick tests; arguments go to pytest
    bench     the measurements, with their ratios
    escape    attack the sandbox and the file tools, by every tier and user; arguments go to it
    fuzz      Hypothesis on whatever reads foreign bytes; --seconds N says how long
    judges    the official SDKs beside our codecs, on recorded and on faulty bodies
    replays   ten recorded runs, each run again, and again with one byte changed
    crashes   kill it anywhere, carry it on, and count what was lost or doubled; --all, --seeds N, --only NAME
    journal   ten thousand power cuts, and every call to the disk that may fail
    secrets   fifty planted keys through a whole session, and the search for them in all that it left
    weather   recorded traffic, the fault table and faults by chance, all of it and through real processes
    write     bring the generated files up to date (schema, reference, style)
    lock      resolve constraints.txt anew (needs uv)
    setup     make .venv with everything in it; the others do this when it is needed

The versions come from constraints.txt, with their hashes. uv is used where it is installed, pip otherwise.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "turnwright-setup"
CONSTRAINTS = ROOT / "constraints.txt"

PROGRAMS = {
    "crashes": "tests/crash/table.py",
    "escape": "tests/escape/escape.py",
    "fuzz": "tests/fuzz/fuzz.py",
    "journal": "tests/journal/prove.py",
    "judges": "tests/judges/judges.py",
    "replays": "tests/replay/ten_runs.py",
    "secrets": "tests/secrets/planted.py",
    "weather": "tests/weather/report.py",
}

TWO_AT_ONCE = ("-n", "2", "--dist", "worksteal")
"""Many tests wait for real clocks: one of two workers would end long before the other."""

Task = tuple[str, list[list[str]]]
"""A name and the commands of Python that it stands for."""


def checks() -> list[Task]:
    return [
        ("style", [["-m", "ruff", "check", "."]]),
        ("format", [["-m", "ruff", "format", "--check", "."]]),
        ("types", [["-m", "mypy", *paths] for paths in typed()]),
        ("contracts", [["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]]),
        ("schema", [["scripts/schema.py"]]),
        ("reference", [["scripts/reference.py"]]),
    ]


def typed() -> list[list[str]]:
    """A room of tests at a time: their modules have no packages, so two rooms may use the same name."""
    rooms = sorted({path.parent for path in (ROOT / "tests").rglob("*.py")})
    tops = sorted({room.relative_to(ROOT).parts[:2] for room in rooms if room != ROOT / "tests"})
    loose = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob("*.py"))]
    whole = [["src", "scripts", "examples", "dev.py", *loose]]
    whole += [["bench"]] if list((ROOT / "bench").glob("*.py")) else []
    return whole + [["src", str(Path(*top))] for top in tops]


def tests() -> list[Task]:
    return [
        ("quick tests", [["-m", "pytest", "-q", "-m", "not slow", *TWO_AT_ONCE]]),
        ("slow tests", [["-m", "pytest", "-q", "-m", "slow", "--timeout", "600", *TWO_AT_ONCE]]),
    ]


def main(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    match command:
        case "setup":
            setup()
            return 0
        case "demo":
            setup()
            code = run(["-m", "turnwright", "demo", *rest])
            if shutil.which("turnwright") is None:
                print(f"\nTo type turnwright as above:  . {os.path.relpath(VENV / 'bin' / 'activate')}")
            return code
        case "test":
            setup()
            return run_all([*checks(), *tests()])
        case "check":
            setup()
            return run_all(checks())
        case "quick":
            setup()
            return run(["-m", "pytest", "-q", "-m", "not slow", *rest])
        case "bench":
            setup()
            return run(["-m", "bench", *rest])
        case "crashes" | "escape" | "fuzz" | "journal" | "judges" | "replays" | "secrets" | "weather":
            setup()
            return run([PROGRAMS[command], *rest])
        case "write":
            setup()
            writers = (
                ["scripts/schema.py", "--write"],
                ["scripts/reference.py", "--write"],
                ["-m", "ruff", "format", "."],
            )
            return max(run(writer) for writer in writers)
        case "lock":
            return lock()
        case "help" | "-h" | "--help":
            print(__doc__)
            return 0 if arguments else 2
        case _:
            print(f"dev.py: there is no command {command!r}.\n{__doc__}", file=sys.stderr)
            return 2


def setup() -> None:
    """Does nothing where nothing has changed since the last time."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever starts it may have an older one
        raise SystemExit(f"dev.py: Turnwright needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    wanted = fingerprint()
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    began = time.monotonic()
    uv = working_uv()
    print(f"dev.py: setting up .venv with {'uv' if uv else 'pip'} ...", flush=True)
    if VENV.exists():
        shutil.rmtree(VENV)
    make_venv(uv)
    # Two passes: hashes cover what comes from outside, and our own source has none.
    install(uv, ["--require-hashes", "-r", str(CONSTRAINTS)])
    install(uv, ["--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    STAMP.write_text(wanted, encoding="utf-8")
    print(f"dev.py: .venv is ready after {time.monotonic() - began:.0f} s.", flush=True)


def fingerprint() -> str:
    """What the venv was made from."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for path in (CONSTRAINTS, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def working_uv() -> str | None:
    """A uv that is found may still be a shim without a version behind it."""
    uv = shutil.which("uv")
    if uv and subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0:
        return uv
    return None


def own_python() -> str:
    """The one behind a venv: started from an activated `.venv`, that is about to be removed."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def make_venv(uv: str | None) -> None:
    if uv:
        must([uv, "venv", "--quiet", "--python", own_python(), str(VENV)])
        return
    made = subprocess.run([own_python(), "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode:
        print(made.stdout + made.stderr, file=sys.stderr)
        raise SystemExit("dev.py: this Python cannot make a venv. On Debian or Ubuntu: apt-get install python3-venv.")


def install(uv: str | None, what: list[str]) -> None:
    if uv:
        must([uv, "pip", "install", "--quiet", "--python", str(PYTHON), *what])
    else:
        must([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what])


def lock() -> int:
    """For every supported Python and system at once, and without naming where packages come from."""
    uv = working_uv()
    if uv is None:
        print("dev.py: lock needs uv (pip install uv).", file=sys.stderr)
        return 1
    command = [uv, "pip", "compile", "pyproject.toml", "--extra", "dev", "--extra", "build"]
    command += [part for extra in ("catalogue", "postgres", "otel", "mcp", "ssh") for part in ("--extra", extra)]
    command += ["--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--quiet", "--upgrade", "-o", str(CONSTRAINTS)]
    must(command)
    if "://" in CONSTRAINTS.read_text(encoding="utf-8"):
        print("dev.py: constraints.txt names an address; it must not.", file=sys.stderr)
        return 1
    return 0


def run_all(tasks: Sequence[Task]) -> int:
    """All of them, so that one round shows every mistake; then a table."""
    rows = []
    for name, commands in tasks:
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        code = max(run(command) for command in commands)
        rows.append((name, code, time.monotonic() - began))
    print("\n== summary")
    for name, code, seconds in rows:
        print(f"  {'ok    ' if code == 0 else 'FAILED'}  {name:<12} {seconds:6.1f} s")
    return 1 if any(code for _, code, _ in rows) else 0


def run(arguments: list[str]) -> int:
    return subprocess.run([str(PYTHON), *arguments], cwd=ROOT, env=environment(), check=False).returncode


def must(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=environment(), check=False)
    if done.returncode:
        raise SystemExit(f"dev.py: this failed: {' '.join(command)}")


def environment() -> dict[str, str]:
    """The caller's own, without what would slow every start or lead into another venv."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")}
    path = f"{VENV / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"
    builders = {
        path.parent for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith(("test_", "conftest"))
    }
    mypy_path = os.pathsep.join(sorted(map(str, builders - {ROOT / "tests"})))
    # Where an administrator's certificate stands between us and the packages, uv by itself would not trust it.
    given = {"UV_NATIVE_TLS": "1", **kept}
    return {**given, "PATH": path, "MYPYPATH": mypy_path, "UV_COMPILE_BYTECODE": "1", "UV_PYTHON_DOWNLOADS": "never"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
