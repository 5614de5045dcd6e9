"""Documents as tests: what their blocks claim is done, and what comes out is held against what they show.

- A `console` block is a session: lines that begin with `$ ` are commands, the rest is what they show. Every shown line
  must come, in order; lines that are not shown may come between. `…` stands for anything, on a line or as one. Ids,
  numbers, times and paths of the machine count as equal. A command must succeed unless the next one is `echo $?`.
- A `python` block is a whole program, and a `text` block right behind it its output.
- `<!-- file: NAME -->` before a block: it is that file. `<!-- not run: WHY -->`: it is left alone.

All blocks of a document share a folder and a data folder that nobody else has. Models of `openai/`, and whatever is at
`http://localhost:8080/v1`, are a fake provider on loopback.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[a-z]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (?P<what>file|not run): (?P<value>.+?) -->\s*$")
DONE = "--8<-- done"


class Block(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    body: str
    line: int
    file: str = ""
    skipped: str = ""
    output: str | None = None
    """The `text` block right behind a program."""


class Command(msgspec.Struct, frozen=True):
    """One line that is typed, and what is shown of its output."""

    typed: str
    shown: tuple[str, ...]
    line: int
    may_fail: bool = False


def documents() -> list[Path]:
    tops = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    return [*tops, *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks_of(text: str) -> Iterator[Block]:
    found = list(FENCE.finditer(text))
    for place, match in enumerate(found):
        mark = MARK.search(text[: match.start()].rstrip())
        behind = found[place + 1] if place + 1 < len(found) else None
        output = None
        if behind is not None and behind["kind"] == "text" and not text[match.end() : behind.start()].strip():
            output = behind["body"]
        yield Block(
            kind=match["kind"],
            body=re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE),
            line=text.count("\n", 0, match.start()) + 1,
            file=mark["value"] if mark and mark["what"] == "file" else "",
            skipped=mark["value"] if mark and mark["what"] == "not run" else "",
            output=output,
        )


def commands_of(block: Block) -> list[Command]:
    commands: list[Command] = []
    for line, text in enumerate(block.body.splitlines(), block.line + 1):
        if text.startswith("$ "):
            commands.append(Command(text[2:], (), line))
        elif commands:
            last = commands[-1]
            if last.typed.endswith("\\"):
                commands[-1] = msgspec.structs.replace(last, typed=f"{last.typed[:-1]} {text.strip()}")
            else:
                commands[-1] = msgspec.structs.replace(last, shown=(*last.shown, text))
    for place, command in enumerate(commands[:-1]):
        if commands[place + 1].typed == "echo $?":
            commands[place] = msgspec.structs.replace(command, may_fail=True)
    return commands


def script_of(commands: list[Command]) -> str:
    """One shell for all of them, which says after each how it ended and keeps its exit code for the next."""
    lines = []
    for command in commands:
        lines += [command.typed, f"code=$?; printf '\\n%s %s\\n' {shlex.quote(DONE)} $code; (exit $code)"]
    return "\n".join([*lines, ""])


def outputs_of(said: str) -> list[tuple[str, int]]:
    """What each command said, and its exit code."""
    pieces = re.split(rf"^{re.escape(DONE)} (\d+)\n", said, flags=re.MULTILINE)
    return [(pieces[at], int(pieces[at + 1])) for at in range(0, len(pieces) - 1, 2)]


VOLATILE = (
    (r"\b(?:c|t|a|i)_[0-9a-z]{20}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| UTC)?", "TIME"),
    (r"\d{8}-\d{6}", "TIME"),
    (r"(?:/[\w.+-]+){2,}/?", "PATH"),
    (r"[▏▎▍▌▋▊▉█]+", "BAR"),
    (r"\d+(?:\.\d+)?", "N"),
    (r"\b(?:Nms|Ns|Nm|Nk)\b", "N"),
    (r"\$(?:N|\?)", "$N"),
    (r"\s+", " "),
)


def plain(line: str) -> str:
    """A line without what differs from one run to the next."""
    for pattern, name in VOLATILE:
        line = re.sub(pattern, name, line)
    # A bar may be too short to be drawn, and a number one digit longer.
    return line.replace(" BAR", "").strip()


def missing(shown: tuple[str, ...] | list[str], said: str) -> str | None:
    """The first line that is shown and did not come in its place."""
    came = iter([plain(line) for line in said.splitlines()])
    for line in shown:
        wanted = plain(line)
        if wanted in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(piece) for piece in wanted.split("…")))
        if not any(pattern.fullmatch(each) for each in came):
            return line
    return None
