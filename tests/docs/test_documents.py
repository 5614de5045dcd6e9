"""What the documents claim is true: their commands and programs are run, their links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import (
    ROOT,
    Block,
    Command,
    blocks_of,
    commands_of,
    documents,
    missing,
    name_of,
    outputs_of,
    plain,
    script_of,
)

from turnwright.testing.fake_provider import spawned

LOCAL = "http://localhost:8080/v1"
SHELL = "bash"
HELLO = "- {text: Hello from the model., repeat: forever}\n"
POPULATION = """
- calls: [{population: {city: Paris}}, {population: {city: Rome}}]
- {text: "Rome, with 2,750,000 inhabitants.", repeat: forever}
"""
"""What the model says to programs: they all bring the same tool."""


class Place:
    """A machine of a newcomer: an empty home, an empty folder, and a model that answers at the usual address."""

    def __init__(self, root: Path, hello: str, population: str) -> None:
        self.root = root
        self.hello = hello
        self.population = population
        self.work = root / "work"
        self.work.mkdir()
        (root / "home").mkdir()

    def environ(self, provider: str) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root),
            "TURNWRIGHT_HOME": str(self.root / "home" / ".turnwright"),
            "TURNWRIGHT_PROVIDERS__OPENAI__BASE_URL": provider,
            "OPENAI_API_KEY": "sk-not-a-key-of-anybody",
            "LANG": "C.UTF-8",
        }

    def keep(self, block: Block) -> None:
        path = self.work / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(block.body), encoding="utf-8")

    def here(self, text: str) -> str:
        return text.replace(LOCAL, self.hello)

    def shell(self, commands: list[Command]) -> list[tuple[str, int]]:
        done = subprocess.run(
            [SHELL, "-c", f"exec 2>&1\n{self.here(script_of(commands))}"],
            cwd=self.work,
            env=self.environ(self.hello),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=90,
            check=False,
        )
        return outputs_of(done.stdout)

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", self.here(program)],
            cwd=self.work,
            env=self.environ(self.population),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("providers")
    (folder / "hello.yaml").write_text(HELLO)
    (folder / "population.yaml").write_text(POPULATION)
    with (
        spawned("--script", str(folder / "hello.yaml")) as hello,
        spawned("--script", str(folder / "population.yaml")) as population,
    ):
        yield f"{hello}/v1", f"{population}/v1"


@pytest.fixture
def place(providers: tuple[str, str]) -> Iterator[Place]:
    """Its path is short, so that lines which show it are not clipped."""
    with tempfile.TemporaryDirectory(prefix="tw-") as root:
        yield Place(Path(root), *providers)


def runnable(document: Path) -> list[Block]:
    blocks = [block for block in blocks_of(document.read_text(encoding="utf-8")) if not block.skipped]
    return [block for block in blocks if block.file or block.kind in ("console", "python")]


WITH_BLOCKS = [document for document in documents() if runnable(document)]


@pytest.mark.slow
@pytest.mark.parametrize("document", WITH_BLOCKS, ids=name_of)
def test_what_is_shown_happens(document: Path, place: Place) -> None:
    blocks = runnable(document)
    for block in blocks:
        if block.file:
            place.keep(block)
    wrong: list[str] = []
    commands = [command for block in blocks if block.kind == "console" for command in commands_of(block)]
    if commands:
        outputs = place.shell(commands)
        assert len(outputs) == len(commands), f"the shell ended early: {outputs[-1:]}"
        for command, (said, code) in zip(commands, outputs, strict=True):
            wrong += _wrong(f"{name_of(document)}:{command.line}: $ {command.typed}", command.shown, said)
            if code and not command.may_fail:
                wrong.append(f"{name_of(document)}:{command.line}: $ {command.typed}\nended with {code}:\n{said}")
    for block in blocks:
        if block.kind == "python" and not block.file:
            done = place.python(block.body)
            where = f"{name_of(document)}:{block.line}"
            if done.returncode:
                wrong.append(f"{where} ended with {done.returncode}:\n{done.stderr}")
            if block.output is not None:
                wrong += _wrong(where, tuple(block.output.splitlines()), done.stdout)
    assert not wrong, "\n\n".join(wrong)


def _wrong(where: str, shown: tuple[str, ...], said: str) -> list[str]:
    lacking = missing(shown, said)
    return [] if lacking is None else [f"{where}\nshows: {lacking}\nas:    {plain(lacking)}\nsaid:\n{said}"]


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def anchors_of(document: Path) -> set[str]:
    """Of its headings, as they are made from them."""
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    broken = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        for link in LINK.findall(FENCED.sub("", document.read_text(encoding="utf-8"))):
            target = (document.parent / link.partition("#")[0]).resolve()
            if not re.match(r"[a-z]+:", link) and target.is_file():
                waiting.append(target)
    assert set(documents()) - reached == set()


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_nothing_is_left_to_be_filled_in(document: Path) -> None:
    """A word in capitals on a line of its own, or one of the usual marks, stands for what somebody meant to write."""
    outside = FENCED.sub("", document.read_text(encoding="utf-8"))
    assert re.findall(r"(?m)^\W*[A-Z][A-Z_ ]{2,}\W*$|\b(?:TODO|FIXME|TBD|XXX|PLACEHOLDER)\b", outside) == []


def test_the_crash_table_is_shown_whole() -> None:
    """With the columns that it prints today, and without a fault."""
    text = (ROOT / "docs/explanation/durability.md").read_text(encoding="utf-8")
    (head,) = [line for line in text.splitlines() if line.startswith("killed at")]
    (every,) = [line for line in text.splitlines() if re.match(r"all +\d", line)]
    found = dict(zip(head.split()[2:], every.split()[1:], strict=False))
    assert int(found["points"]) >= 1_000
    assert {column: found[column] for column in ("lost", "doubled", "damaged", "unfinished", "untold", "left")} == (
        dict.fromkeys(("lost", "doubled", "damaged", "unfinished", "untold", "left"), "0")
    )


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_no_machine_is_named(document: Path) -> None:
    """Neither somebody's folders nor where packages come from."""
    text = document.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:home|root|Users|work)/\S*|pypi\.org/simple\S*", text)
