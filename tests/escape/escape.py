"""Try to get out of the sandbox in every way we know: `python3 dev.py escape [--tier T …] [--user U …] [--only TEXT]`.

    bare         without Turnwright: every attack must succeed here, or it shows nothing
    none         through Turnwright, confined by nothing
    kernel-lite, namespaces
    tools        names and races by which file tools might be led out of the workspace

Users are `root` and `user` (an ordinary one; as root, the suite tries both). Leaves with 1 where an attack got out of
the namespaces tier, or of the file tools, that `docs/explanation/sandbox.md` does not list, where one does not succeed
bare, or where one is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from attack_kit import Attack, every_attack
from bystanders import own_world
from suite import TIERS, Attempt, Wall, attempt, intended, is_listed
from tool_attacks import rows as tool_rows

ORDINARY = 61234
"""Nobody's number: none of its processes or files are anybody else's."""
HARD = frozenset({"namespaces"})
"""What an attack gets out of only if the document says so. Of the others the document says what they let through."""


def main(words: Sequence[str]) -> int:
    asked = _asked(words)
    attacks = [each for name, each in sorted(every_attack().items()) if all(part in name for part in asked.only)]
    attacks = attacks[asked.part :: asked.parts]
    alone = own_world()
    base = _base()
    held = True
    try:
        held &= "tools" not in (asked.tier or ("tools",)) or _tools_hold(base, asked)
        for user in asked.user or (("root", "user") if os.geteuid() == 0 else ("user",)):
            for wall in [each for each in asked.tier or ("bare", *TIERS) if each != "tools"]:
                number = ORDINARY if user == "user" and os.geteuid() == 0 else None
                with ThreadPoolExecutor(asked.at_once) as pool:
                    tried = list(pool.map(lambda each: attempt(each, wall, base, number), attacks))  # noqa: B023
                held &= _shown(tried, attacks, wall, user, asked)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not alone:
        print("(the metadata address was nobody's: only root can give this suite a network of its own)")
    return 0 if held else 1


def _asked(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=("bare", *TIERS, "tools"), action="append", help="only this; may repeat")
    parser.add_argument("--user", choices=("root", "user"), action="append", help="only this; may repeat")
    parser.add_argument("--only", metavar="TEXT", action="append", default=[], help="attacks with this in their name")
    parser.add_argument("--part", type=int, default=0, help="of --parts, from 0: every so-manieth attack")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2, help="attempts side by side (default: 2)")
    parser.add_argument("--rounds", type=int, default=3_000, help="races of every file tool (default: 3000)")
    parser.add_argument("--searches", type=int, default=300, help="races of every search (default: 300)")
    parser.add_argument("--all", action="store_true", help="show what stopped each attempt, too")
    parser.add_argument("--json", action="store_true", help="one object per attempt")
    return parser.parse_args(words)


def _base() -> Path:
    """Not below /tmp: a sandbox has one of its own, and what is hidden is no test of what is protected."""
    where = "/srv" if os.geteuid() == 0 else str(Path.home())
    base = Path(tempfile.mkdtemp(prefix="turnwright-escape-", dir=where))
    base.chmod(0o755)
    return base


def _tools_hold(base: Path, asked: argparse.Namespace) -> bool:
    held = True
    for row in tool_rows(base, asked.rounds, asked.searches):
        if row.tally is None:
            print(f"file tools   {row.name}: not to be had here", flush=True)
            continue
        wrong = bool(row.tally.successes) and row.must_hold
        held &= not wrong
        print(
            f"file tools   {row.name:<32} {row.tally.attempts:>6} attempts {len(row.tally.successes):>5} successes"
            f" {row.tally.got_through:>6} did their work",
            flush=True,
        )
        for said, times in Counter(row.tally.successes).most_common(20):
            print(f"  {'WRONG ' if wrong else '      '}{said} ({times})", flush=True)
    return held


def _shown(
    tried: Sequence[Attempt], attacks: Sequence[Attack], wall: Wall, user: str, asked: argparse.Namespace
) -> bool:
    listed = intended().get(wall, frozenset())
    by_name = {each.name: each for each in attacks}
    succeeded = [each for each in tried if each.became == "success"]
    wrong = [each for each in tried if each.became == "broken" or (each.became == "refused" and wall != "none")]
    if wall == "bare":
        wrong += [each for each in tried if each.became == "stopped" and _succeeds_bare(by_name[each.attack], user)]
    if wall in HARD:
        wrong += [each for each in succeeded if not is_listed(each.attack, listed)]
    counted = sum(each.became != "impossible" for each in tried)
    if asked.json:
        for each in tried:
            print(json.dumps({"user": user, "listed": is_listed(each.attack, listed), **asdict(each)}), flush=True)
        return not wrong
    print(f"{wall:<12} as {user:<5} {counted:>4} attempts {len(succeeded):>4} successes", end="")
    print(f" {sum(is_listed(each.attack, listed) for each in succeeded):>4} of them listed", flush=True)
    shown = tried if asked.all else [each for each in tried if each in wrong or (wall in TIERS and each in succeeded)]
    for each in shown:
        mark = "WRONG " if each in wrong else "      "
        print(f"  {mark}{each.attack:<52} {each.became:<10} {each.said.replace(chr(10), ' | ')[:300]}", flush=True)
    return not wrong


def _succeeds_bare(attack: Attack, user: str) -> bool:
    return attack.sure and attack.bare in ("all", user)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
