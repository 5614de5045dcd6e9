"""`turnwright permissions check`: what would be decided about a call, by which rule, because of which piece of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from turnwright.app.confining import confinement_of
from turnwright.app.permitted_tools import permits_for
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.schema.errors import InputError
from turnwright.schema.sandbox import UNCONFINED, Confinement, SandboxTier
from turnwright.schema.verdicts import Effect
from turnwright.session.permissions.decide import Decision
from turnwright.tools.registry import FunctionTool
from turnwright.tools.standard import standard_tools
from turnwright.views.text import Line, Span, Style, line, one_line

_STYLES: dict[str, Style] = {"allow": "good", "ask": "warn", "deny": "bad"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", metavar="NAME", required=True, help="bash, write, edit, …")
    parser.add_argument("--input", metavar="JSON", required=True, help="""its arguments: '{"command": "git push"}'""")
    parser.add_argument("--autonomy", metavar="0-4", type=int, choices=range(5), help="as if it were set so")
    parser.add_argument(
        "--tier",
        choices=get_args(SandboxTier),
        help="as if commands were held by this sandbox, with the network off (default: what holds them here)",
    )
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where it would simply run, 58 where it would be asked about or denied."""
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    confinement = asyncio.run(confinement_of(loaded)) if args.tier is None else _confined(args.tier)
    permits = permits_for(loaded, workspace, lambda: confinement)
    decision = permits.decide(args.tool, _effect(args.tool), _arguments(args.input))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(decision) + b"\n")
    else:
        Terminal(sys.stdout).lines(_lines(decision))
    return ExitCode.DONE if decision.action == "allow" else ExitCode.PERMISSION


def _confined(tier: SandboxTier) -> Confinement:
    return UNCONFINED if tier == "none" else Confinement(level="workspace-write", tier=tier, network="off")


def _effect(name: str) -> Effect:
    specs = (FunctionTool.of(each).spec for each in standard_tools())
    return next((spec.effect for spec in specs if spec.name == name), "runs")


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as bad:
        raise InputError(
            f"--input is not a JSON object: {bad}.", remedy="""Example: --input '{"command": "git push"}'"""
        ) from bad


def _lines(decision: Decision) -> Iterator[Line]:
    yield line(Span(decision.action, _STYLES[decision.action]), f"  {one_line(decision.segment)}")
    yield line(f"  {one_line(decision.rule)}")
    if decision.why and (decision.risk is None or decision.why != decision.risk.said):
        yield line(f"  {one_line(decision.why)}")
    if decision.risk is not None:
        yield line(f"  {one_line(decision.risk.said)}")
    for rule in decision.always:
        yield line(f"  always would add: {one_line(str(rule))}")
    if len(decision.judged) > 1:
        yield line(Span("each piece:", "dim"))
        for one in decision.judged:
            yield line(
                "  ",
                Span(f"{one.action:<5}", _STYLES[one.action]),
                f"  {one_line(one.segment.shown)}  ({one.segment.kind})",
            )
