"""`turnwright trust`: what a folder brings, and that it may be used as it is now.

It holds for the very contents that are shown. Whatever changes afterwards is left out again until it is trusted anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from turnwright.app.trust import brought_by
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_json_option
from turnwright.cli.terminal import Terminal
from turnwright.cli.trusting import brought_lines, untrusted_of
from turnwright.config.folders import folders_of_environment
from turnwright.config.trust import Trust, TrustStore, trust_in
from turnwright.views.text import Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder to trust (default: this one)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--show", action="store_true", help="only show it; leave with 55 if any of it is not trusted")
    instead.add_argument("--revoke", action="store_true", help="take back what was agreed to for the folder")
    instead.add_argument("--list", action="store_true", help="all folders that something was agreed to for")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    folders = folders_of_environment()
    if args.list:
        return _listed(TrustStore(folders.trust), args.json)
    workspace = workspace_of(args.folder)
    trust = trust_in(workspace, folders)
    if args.revoke:
        return _revoked(trust)
    brought = brought_by(workspace, trust, folders, nested=True)
    if not args.show:
        trust.store.agree(trust.folder, [one.entry for one in brought])
        trust = trust_in(workspace, folders)
    left_out = untrusted_of(brought, trust)
    if args.json:
        rows = [{"trusted": one.entry not in [each.entry for each in left_out], **_row(one)} for one in brought]
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")
    else:
        Terminal(sys.stdout).lines(brought_lines(brought, trust))
        _tell(trust, len(brought), len(left_out))
    return ExitCode.UNTRUSTED if left_out else ExitCode.DONE


def _row(one: msgspec.Struct) -> dict[str, object]:
    row: dict[str, object] = msgspec.to_builtins(one)
    return row


def _tell(trust: Trust, brought: int, left_out: int) -> None:
    if not brought:
        said = f"{trust.folder} brings nothing that needs your trust."
    elif left_out:
        said = f"{left_out} of {brought} are not used. To allow them as they are: turnwright trust {trust.folder}"
    else:
        said = f"Trusted as it is now: {trust.folder}. Take it back with: turnwright trust --revoke {trust.folder}"
    print(said)


def _revoked(trust: Trust) -> int:
    if trust.store.revoke(trust.folder):
        print(f"Nothing of {trust.folder} is trusted any more.")
    else:
        print(f"Nothing of {trust.folder} was trusted.")
    return ExitCode.DONE


def _listed(store: TrustStore, as_json: bool) -> int:
    agreed = store.folders()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(agreed) + b"\n")
        return ExitCode.DONE
    terminal = Terminal(sys.stdout)
    for folder, one in sorted(agreed.items()):
        gone = "" if Path(folder).is_dir() else "  (no longer there)"
        terminal.lines([line(Span(one_line(folder), "heading"), gone)])
        for key, sha256 in sorted(one.trusted.items()):
            kind, _, name = key.partition(":")
            terminal.lines([line(f"  {kind} {one_line(name)}  sha256 {sha256[:16]}")])
    if not agreed:
        print("No folder is trusted.")
    return ExitCode.DONE
