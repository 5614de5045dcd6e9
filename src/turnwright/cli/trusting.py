"""Before a turn begins: what the folder brings that the user has not trusted is asked about once, or left out aloud."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnwright.app.trust import Brought, brought_by
from turnwright.cli.asking import chosen_of
from turnwright.cli.terminal import Terminal
from turnwright.config.folders import folders_of_environment
from turnwright.config.trust import Trust, judged, trust_in
from turnwright.schema.errors import UntrustedFolder
from turnwright.schema.trust import Untrusted
from turnwright.views.text import Line, Span, Style, line, one_line

CHOICES = ("trust", "not now", "never")


def settle_trust(args: argparse.Namespace, workspace: Path) -> None:
    """Asks where somebody sits; says what is left out elsewhere. Raises UntrustedFolder under `--require-trust`."""
    folders = folders_of_environment()
    trust = trust_in(workspace, folders)
    left_out = untrusted_of(brought_by(workspace, trust, folders, nested=False), trust)
    args.trust_settled = True
    if not left_out:
        return
    if _somebody_sits_here(args) and _ask(workspace, trust, left_out):
        return
    if args.require_trust:
        raise UntrustedFolder(
            f"{trust.folder} brings what you have not trusted: {_names(left_out)}.", remedy=left_out[0].remedy
        )
    tell_untrusted(left_out, trust.folder)


def untrusted_of(brought: Sequence[Brought], trust: Trust) -> list[Untrusted]:
    found = (judged(trust.agreed, one.entry, trust.folder) for one in brought)
    return [one for one in found if isinstance(one, Untrusted)]


def tell_untrusted(left_out: Sequence[Untrusted], folder: Path) -> None:
    changed = any("changed" in one.why for one in left_out)
    why = "changed since you trusted it" if changed and len(left_out) == 1 else "not trusted"
    said = f"turnwright: not used, because {why}: {_names(left_out)}. See `turnwright trust --show {folder}`."
    print(said, file=sys.stderr)


def brought_lines(brought: Sequence[Brought], trust: Trust) -> Iterator[Line]:
    for one in brought:
        found = judged(trust.agreed, one.entry, trust.folder)
        state = found.why if isinstance(found, Untrusted) else "trusted"
        style: Style = "warn" if isinstance(found, Untrusted) else "good"
        name = f"{one.entry.kind} {one_line(one.entry.name)}"
        yield line(Span(name, "heading"), f"  sha256 {one.entry.sha256[:16]}  ", Span(state, style))
        for does in one.does:
            yield line(f"    {one_line(does)}")


def _names(left_out: Sequence[Untrusted]) -> str:
    names = [one_line(one.entry.name) for one in left_out]
    return ", ".join(names if len(names) <= 6 else [*names[:5], f"and {len(names) - 5} more"])


def _somebody_sits_here(args: argparse.Namespace) -> bool:
    there = sys.stdin.isatty() and sys.stderr.isatty()
    return there and not args.no_input and args.output == "text" and not getattr(args, "detach", False)


def _ask(workspace: Path, trust: Trust, left_out: Sequence[Untrusted]) -> bool:
    """Whether all of it may be used. What was declined for good is not asked about again while it stays the same."""
    if all(trust.agreed.declined.get(one.entry.key) == one.entry.sha256 for one in left_out):
        return False
    brought = brought_by(workspace, trust, folders_of_environment(), nested=True)
    new = [one for one in brought if isinstance(judged(trust.agreed, one.entry, trust.folder), Untrusted)]
    err = Terminal(sys.stderr)
    err.lines([line(Span(f"{trust.folder} brings its own settings or instructions. Do you trust them?", "heading"))])
    err.lines(brought_lines(new, trust))
    err.lines(line(f"  {number}  {choice}") for number, choice in enumerate(CHOICES, 1))
    entries = [one.entry for one in new]
    answer = _answer(err)
    if answer == "trust":
        trust.store.agree(trust.folder, entries)
    elif answer == "never":
        trust.store.decline(trust.folder, entries)
    return answer == "trust"


def _answer(err: Terminal) -> str | None:
    while True:
        err.write("? ")
        err.flush()
        said = os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")
        if not said:
            return None
        if chosen := chosen_of(said, CHOICES):
            return chosen
