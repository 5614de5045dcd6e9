"""`turnwright permissions backtest`: other rules on conversations that are over. Without --rules and --autonomy these
are the rules as they are now."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from turnwright.app.confining import confinement_of
from turnwright.app.continuing import opening_of
from turnwright.app.permitted_tools import RealGround, permits_for
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, flags_of, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.config.load import Loaded, load
from turnwright.schema.ids import ConversationId
from turnwright.session.permissions.backtest import Call, backtest_rules
from turnwright.tools.registry import FunctionTool
from turnwright.tools.standard import standard_tools
from turnwright.views.text import Line, Span, Style, line, one_line

_STYLES: dict[str, Style] = {
    "question gone": "good",
    "denial gone": "good",
    "new question": "warn",
    "new denial": "bad",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversations", nargs="+", metavar="ID", help="as sessions lists them, or last")
    parser.add_argument("--rules", metavar="FILE", help="a configuration whose permissions are tried")
    parser.add_argument("--autonomy", metavar="0-4", type=int, choices=range(5), help="as if it were set so")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    tried = loaded
    if args.rules:
        tried = load(workspace, file=Path(args.rules).expanduser(), flags=flags_of(args))
    for conversation_id, calls in asyncio.run(_tried(loaded, tried, args.conversations)):
        if args.json:
            rows = [{**msgspec.structs.asdict(call), "change": call.change} for call in calls]
            said = {"conversation_id": conversation_id, "calls": rows}
            sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        else:
            Terminal(sys.stdout).lines(_lines(conversation_id, calls))
    return 0


async def _tried(loaded: Loaded, tried: Loaded, names: Sequence[str]) -> list[tuple[ConversationId, list[Call]]]:
    specs = [FunctionTool.of(each).spec for each in standard_tools()]
    effects = {spec.name: spec.effect for spec in specs}
    found = []
    confinement = await confinement_of(tried)
    async with open_for_reading(loaded) as journal:
        for name in names:
            conversation_id = await named_conversation(journal, name)
            facts = await facts_of(journal, conversation_id)
            workspace = Path(opening_of(facts).workspace)
            policy = permits_for(tried, workspace, lambda: confinement).policy()
            calls = list(backtest_rules(facts, policy, effects, RealGround(workspace)))
            found.append((conversation_id, calls))
    return found


def _lines(conversation_id: ConversationId, calls: Sequence[Call]) -> Iterator[Line]:
    changes = Counter(call.change for call in calls if call.change)
    counted = ", ".join(f"{count} × {change}" for change, count in sorted(changes.items())) or "nothing changes"
    yield line(Span(conversation_id, "heading"), f"  {len(calls)} calls: {counted}")
    for call in calls:
        if call.change:
            yield line(
                "  ",
                Span(f"{call.change:<13}", _STYLES[call.change]),
                f"  fact {call.seq}  {call.tool}: {one_line(call.segment)}  ({one_line(call.rule)})",
            )
