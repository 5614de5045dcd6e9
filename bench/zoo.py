"""`python -m bench.zoo`: bad models, through the command line with its defaults, and through a bare loop.

Each file of `bench/zoo/` is the script of one. The bare loop asks, runs what it is asked to, and ends with a reply that
calls nothing: what most loops are. It is stopped by us after 200 steps.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from turnwright.kernel.assemble import Assembly
from turnwright.providers.script import read_script
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route
from turnwright.schema.settings import Settings

ZOO = Path(__file__).parent / "zoo"
TASK = "Make the tests pass."
STEPS_MAX = 200


class Became(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run."""

    reason: str
    steps: int
    calls: int
    said: int
    """Characters that the model was listened to, arguments included."""
    text: str
    guards: tuple[str, ...] = ()


def animals() -> dict[str, Path]:
    return {path.stem: path for path in sorted(ZOO.glob("*.yaml"))}


def guarded(script: Path, root: Path, *options: str) -> Became:
    """A process of its own, in an empty workspace."""
    work = root / "work"
    work.mkdir(parents=True)
    allowed = {"permissions": {"autonomy": 4}} if "permissions" in Settings.__struct_fields__ else {}
    config = root / "zoo.yaml"
    config.write_text(json.dumps(allowed))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "turnwright", "run", TASK, "--model", f"scripted/{script}"),
            *("--cwd", str(work), "--config", str(config), "--output", "stream-json", *options),
        ],
        env={**os.environ, "TURNWRIGHT_HOME": str(root / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return became(done.stdout)


def became(stream: str) -> Became:
    lines: list[dict[str, Any]] = [json.loads(line) for line in stream.splitlines()]
    deltas = [line for line in lines if line["type"] in ("text-delta", "reasoning-delta", "tool-args-delta")]
    trips = [f"{line['guard']} {line['verdict']}" for line in lines if line["type"] == "guard.tripped"]
    return Became(
        reason=lines[-1]["reason"],
        steps=lines[-1]["steps"],
        calls=sum(line["type"] == "tool.started" for line in lines),
        said=sum(len(line.get("text", "") or line.get("fragment", "")) for line in deltas),
        text=lines[-1]["text"],
        guards=tuple(dict.fromkeys(trips)),
    )


async def bare(script: Path) -> Became:
    """Tools are not executed for real: only how often they would be counts here."""
    model = ScriptedModel(read_script(script))
    messages: list[Message] = [UserMessage(text=TASK)]
    calls = said = 0
    for step in range(1, STEPS_MAX + 1):
        reply = await _reply(model, messages)
        messages.append(reply)
        said += len(reply.text) + sum(len(each.text) for each in reply.reasoning)
        said += sum(len(call.raw or call.arguments) for call in reply.calls)
        if not reply.calls:
            return Became(reason="no calls", steps=step, calls=calls, said=said, text=reply.text)
        calls += sum(not call.problem for call in reply.calls)
        results = (ToolResult(call_id=call.id, name=call.name, output=f"result {step}") for call in reply.calls)
        messages.append(ToolResults(results=tuple(results)))
    return Became(reason="stopped by us", steps=STEPS_MAX, calls=calls, said=said, text="")


async def _reply(model: ScriptedModel, messages: list[Message]) -> AssistantMessage:
    numbers = iter(range(1_000_000))
    assembly = Assembly(new_id=lambda: f"own_{next(numbers)}")
    prompt = Prompt(lineage="bare", system=(), messages=messages)
    async for parts in model.attempt(Route(name="scripted", model="scripted"), prompt):
        assembly.add(parts)
    return assembly.reply().message


def rows(found: dict[str, tuple[Became, Became]]) -> list[str]:
    head = ("model", "reason", "steps", "calls", "read", "bare loop", "steps", "calls", "read", "last words")
    cells = [head]
    for name, (ours, plain) in found.items():
        last = " ".join(ours.text.split())
        cells.append(
            (
                name,
                *(ours.reason, str(ours.steps), str(ours.calls), str(ours.said)),
                *(plain.reason, str(plain.steps), str(plain.calls), str(plain.said)),
                last if len(last) <= 60 else f"{last[:59]}…",
            )
        )
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = {2, 3, 4, 6, 7, 8}
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.zoo", description="Bad models, with guards and without.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(animals())}")
    args = parser.parse_args()
    chosen = {name: path for name, path in animals().items() if not args.names or name in args.names}
    found: dict[str, tuple[Became, Became]] = {}
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        for name, path in chosen.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            found[name] = (guarded(path, Path(folder) / name), asyncio.run(bare(path)))
    print("\n".join(rows(found)))
    print("\nread: characters of the model's that were listened to. The guards that spoke:")
    for name, (ours, _) in found.items():
        print(f"  {name}: {', '.join(ours.guards) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
