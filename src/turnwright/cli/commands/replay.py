"""`turnwright replay`: the same conversation through the same loop, offline, up to the first difference."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.app.replaying import replayed, scratch_tools
from turnwright.cli import event_loop
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.config.load import Loaded
from turnwright.schema.facts import ConversationOpened, ModeChanged, Recorded, TurnStarted
from turnwright.session.replay.run import Replay
from turnwright.views.divergence import divergence_lines
from turnwright.views.text import Line, Span, line, plural


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument(
        "--from",
        dest="source",
        choices=("bytes", "parts"),
        help="the recorded bytes through the codecs again, or what they gave (default: bytes where they were kept)",
    )
    parser.add_argument(
        "--tools",
        choices=("recorded", "live"),
        default="recorded",
        help="live executes them again, in a copy of the workspace, with your rights",
    )
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 only where everything is the same again."""
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        clock = SystemClock()
        began = clock.monotonic()
        result, where = await (_live(args, loaded) if args.tools == "live" else _recorded(args, loaded))
        took_s = clock.monotonic() - began
        if args.json:
            told = {"identical": result.identical, "tools": args.tools, "workspace": where, "took_s": round(took_s, 4)}
            sys.stdout.buffer.write(msgspec.json.encode({**msgspec.to_builtins(result), **told}) + b"\n")
        else:
            Terminal(sys.stdout).lines(_said(result, where, took_s))
        return ExitCode.DONE if result.identical else ExitCode.DIVERGED

    return event_loop.run(main())


async def _recorded(args: argparse.Namespace, loaded: Loaded) -> tuple[Replay, str]:
    async with open_for_reading(loaded) as journal:
        conversation_id = await named_conversation(journal, args.conversation)
        return await replayed(journal, conversation_id, args.source or "kept"), ""


async def _live(args: argparse.Namespace, loaded: Loaded) -> tuple[Replay, str]:
    from turnwright.app.engine import open_engine

    async with open_engine(loaded, label="replay") as engine:
        conversation_id = await named_conversation(engine.journal, args.conversation)
        opened, mode = _begun(await facts_of(engine.journal, conversation_id))
        async with scratch_tools(engine, opened, mode) as (rerun, where):
            return await replayed(engine.journal, conversation_id, args.source or "kept", rerun), where


def _begun(facts: list[Recorded]) -> tuple[ConversationOpened, str]:
    opened = [each.fact for each in facts if isinstance(each.fact, ConversationOpened)][-1]
    modes = {each.fact.mode for each in facts if isinstance(each.fact, TurnStarted)}
    modes |= {each.fact.after for each in facts if isinstance(each.fact, ModeChanged)}
    return opened, "plan" if modes == {"plan"} else "build"


def _said(result: Replay, where: str, took_s: float) -> Iterator[Line]:
    if result.divergence is not None:
        yield from divergence_lines(result.divergence)
    verdict = Span("identical", "good") if result.identical else Span("not identical", "bad")
    counted = (
        f"{plural(result.replayed, 'fact')} replayed, {plural(result.turns, 'turn')}, {plural(result.steps, 'step')}"
    )
    yield line(verdict, f": {counted}, {result.recorded_ms / 1000:.2f} s recorded, {took_s:.2f} s now")
    yield line(f"replies from bytes: {result.from_bytes}, from parts: {result.from_parts}")
    if where:
        yield line(f"tools executed again: {result.reran}, in {where}")
