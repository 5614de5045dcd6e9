"""Work that is long and honest: no guard may say a word about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILES = 75


def refactoring(work: Path) -> tuple[str, list[dict[str, Any]]]:
    """Three hundred calls in 150 replies: each file is read, then edited twice and tested with the same command."""
    steps: list[dict[str, Any]] = []
    (work / "check.sh").write_text("grep -rL old_name . --include='*.py' | wc -l\n")
    for number in range(FILES):
        name = f"module_{number}.py"
        (work / name).write_text(f"import old_name\n\ndef run_{number}():\n    return old_name.send({number})\n")
        edits = [
            {"edit": {"path": name, "old": "import old_name", "new": "import new_name"}},
            {"edit": {"path": name, "old": "old_name.send", "new": "new_name.send"}},
        ]
        steps += [
            {"calls": [{"read": {"path": name}}]},
            {"calls": [*edits, {"bash": {"command": "sh check.sh"}}]},
        ]
    return "Rename old_name to new_name in every module", [*steps, {"text": "Renamed in 75 files; all are checked."}]


def polling(work: Path) -> tuple[str, list[dict[str, Any]]]:
    """A build that takes its time: the same question forty times, and each time a little more is done."""
    (work / "poll.sh").write_text(
        'n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; [ $n -lt 40 ] && echo "building: $n of 40" '
        '|| echo "build done"\n'
    )
    return "Build it and tell me when it is done", [
        {"calls": [{"bash": {"command": "sh poll.sh"}}], "repeat": 40},
        {"text": "The build is done, after forty looks."},
    ]


def audit(work: Path) -> tuple[str, list[dict[str, Any]]]:
    """Nothing but reading: files once, the largest in pages, and a search between them; some of it twice."""
    steps: list[dict[str, Any]] = []
    for number in range(40):
        (work / f"part_{number}.c").write_text(f"int part_{number}(void) {{ return {number}; }}\n" * 50)
        steps.append({"calls": [{"read": {"path": f"part_{number}.c"}}, {"grep": {"pattern": f"part_{number}\\b"}}]})
    steps += [
        {"calls": [{"read": {"path": "part_0.c", "first_line": page, "max_lines": 10}}]} for page in range(1, 42, 10)
    ]
    again = [{"calls": [{"read": {"path": f"part_{number}.c"}}]} for number in range(8)]
    return "Audit the code for overflows. Do not change anything.", [*steps, *again, {"text": "No overflow was found."}]


WORK = {"refactoring": refactoring, "polling": polling, "audit": audit}
CALLS = {"refactoring": 300, "polling": 40, "audit": 93}
