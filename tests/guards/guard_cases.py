"""A case is a file: a script of replies, what must be seen of it through the command line with the defaults, and what
is seen where the guard in question is switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from turnwright.cli.main import main
from turnwright.kernel.guards.kind import Kind
from turnwright.kernel.guards.registry import GUARDS
from turnwright.schema.settings import Settings

CASES = Path(__file__).parent / "cases"
KINDS = {kind.name: kind for kind in GUARDS}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a run shows of itself in its stream."""

    reason: str
    exit: int
    text: str
    ran: int
    """Calls that were executed."""
    trips: tuple[str, ...]
    steps: int
    lines: tuple[dict[str, Any], ...]

    def shows(self, expected: dict[str, Any]) -> dict[str, Any]:
        """Of what is expected, what is there."""
        return {key: list(self.trips) if key == "trips" else getattr(self, key) for key in expected}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    steps: list[dict[str, Any]]
    expected: dict[str, Any]
    without: dict[str, Any] | None
    config: dict[str, Any]
    files: dict[str, str]
    verdicts: list[str]
    kind: Kind
    slow: bool


def cases() -> list[Case]:
    return [_case(path) for path in sorted(CASES.glob("*.yaml"))]


def _case(path: Path) -> Case:
    data = yaml.safe_load(path.read_text())
    steps = [_flooded(step, data["flood"]) if step.get("calls") == "FLOOD" else step for step in data["steps"]]
    config = dict(data.get("config", {}))
    if "limits" in data:
        config["loop"] = {"limits": data["limits"]}
    return Case(
        name=path.stem,
        steps=steps,
        expected={key: data[key] for key in ("trips", "reason", "exit", "text", "ran") if key in data},
        without=data.get("without"),
        config=config,
        files=data.get("files", {}),
        verdicts=data.get("verdicts", []),
        kind=KINDS[data.get("guard", path.stem.partition("-")[0])],
        slow=data.get("slow", False),
    )


def _flooded(step: dict[str, Any], flood: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {flood["tool"]: {key: value.replace("{number}", str(number)) for key, value in flood["arguments"].items()}}
        for number in range(flood["calls"])
    ]
    return {**step, "calls": calls}


def run(case: Case, root: Path, *, off: bool, capture: Any) -> Seen:
    """Through the command line, in a home and a workspace of its own."""
    work, home = root / ("work-off" if off else "work"), root / "home"
    work.mkdir()
    home.mkdir(exist_ok=True)
    for name, text in case.files.items():
        (work / name).write_text(text)
    config = _merged(case.config, _switched_off(case.kind) if off else {})
    (home / "config.yaml").write_text(yaml.safe_dump({**config, **everything_allowed()}))
    script = root / "script.yaml"
    script.write_text(yaml.safe_dump({"steps": case.steps}))
    code = main(["run", "do it", "--model", f"scripted/{script}", "--cwd", str(work), "--output", "stream-json"])
    return seen_in(code, capture.readouterr().out)


def everything_allowed() -> dict[str, Any]:
    """Guards are what is tested here, and not permissions."""
    return {"permissions": {"autonomy": 4}} if "permissions" in Settings.__struct_fields__ else {}


def seen_in(code: int, stream: str) -> Seen:
    lines = tuple(json.loads(line) for line in stream.splitlines())
    result = lines[-1]
    return Seen(
        reason=result["reason"],
        exit=code,
        text=result["text"],
        ran=sum(line["type"] == "tool.started" for line in lines),
        trips=tuple(f"{line['guard']} {line['verdict']}" for line in lines if line["type"] == "guard.tripped"),
        steps=result["steps"],
        lines=lines,
    )


def _switched_off(kind: Kind) -> dict[str, Any]:
    *above, last = kind.where.split(".")
    tree: dict[str, Any] = {last: {"enabled": False}}
    for name in reversed(above):
        tree = {name: tree}
    return tree


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _merged(merged[key], value) if isinstance(value, dict) and key in merged else value
    return merged
