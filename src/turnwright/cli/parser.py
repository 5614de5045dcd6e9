"""Arguments of one command. A mistake is one sentence with the nearest right word, not a page of usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from turnwright.cli.registry import COMMANDS, Command, command, groups
from turnwright.schema.errors import UsageError


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """argparse would print its usage and leave; we answer like everything else."""
        raise UsageError(f"{self.prog}: {_reworded(message)}.", remedy=f"See {self.prog} --help.")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        args, left = self.parse_known_args(arguments)
        if not left:
            return args
        known = [option for action in self._actions for option in action.option_strings]
        unknown = next((word for word in left if word.startswith("-") and word != "-"), None)
        if unknown is None:
            raise UsageError(f"{self.prog}: {left[0]!r} is one argument too many.", remedy=f"See {self.prog} --help.")
        name = unknown.partition("=")[0]
        raise UsageError(f"{self.prog}: there is no option {name}.", remedy=nearest(name, known, self.prog))


def nearest(word: str, known: Iterable[str], prog: str) -> str:
    near = _near(word, known)
    return f"Did you mean {near[0]}?" if near else f"See {prog} --help."


def parser_of(name: str) -> tuple[Parser, Command]:
    found = command(name)
    parser = Parser(f"turnwright {name}", f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.")
    found.add(parser)
    return parser, found


def named_command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command and the arguments that are its own; a UsageError where there is none of that name."""
    first, rest = arguments[0], arguments[1:]
    if first.startswith("-"):
        raise UsageError(
            f"turnwright: there is no option {first} before a command.",
            remedy=nearest(first, ["--help", "--version"], "turnwright"),
        )
    if rest and f"{first} {rest[0]}" in COMMANDS:
        return f"{first} {rest[0]}", rest[1:]
    if first in COMMANDS:
        return first, rest
    if seconds := groups().get(first):
        listed = ", ".join(f"turnwright {first} {second}" for second in seconds)
        raise UsageError(f"turnwright {first} needs a second word.", remedy=f"There is: {listed}.")
    raise UsageError(
        f"turnwright: there is no command {first!r}.",
        remedy=nearest(first, [*COMMANDS, *groups()], "turnwright"),
    )


def overview() -> str:
    """What `turnwright --help` says."""
    widest = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name.ljust(widest)}  {line}" for name, line in COMMANDS.items())
    return (
        f"usage: turnwright COMMAND …\n\n{lines}\n\nturnwright COMMAND --help says more; --version names the version.\n"
    )


def _near(word: str, known: Iterable[str]) -> list[str]:
    import difflib  # costs milliseconds, and only a mistake needs it

    found = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    # Letters that changed places are the likelier slip than one that is missing: --modle is --model, not --mode.
    return sorted(found, key=lambda each: sorted(each) != sorted(word))[:1]


def _reworded(message: str) -> str:
    if choice := re.fullmatch(r"argument (.+?): invalid choice: '(.*)' \(choose from (.+)\)", message, re.DOTALL):
        argument, given, listed = choice.groups()
        choices = [one.strip(" '") for one in listed.split(",")]
        near = _near(given, choices)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{argument} cannot be {given!r}, it is one of {', '.join(choices)}{hint}".rstrip("?")
    if wrong := re.fullmatch(r"argument (.+?): invalid (?:int|float|\w+) value: (.*)", message, re.DOTALL):
        return f"{wrong[1]} cannot be {wrong[2]}"
    return message.replace("the following arguments are required:", "missing:")
