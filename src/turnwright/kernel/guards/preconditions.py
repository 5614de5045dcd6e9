"""What a command needs, declared: a `make` needs a Makefile, with the target that it names.

Only what is certain counts. A command that goes elsewhere first, is made of more than one, or stands behind another
that may still write the file is let through: it will say itself what is wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import LOOKED, Block, Judgement, Look
from turnwright.schema.facts import Fact, ModelReplied, Note
from turnwright.schema.guards import PreconditionsGuard
from turnwright.schema.ids import CallId
from turnwright.schema.messages import ToolCall
from turnwright.schema.tools import Detail

NAME = "preconditions"
SHELL = "bash"
NAMES_MAX = 4_000
SYNTAX = frozenset("|&;<>()$`\\\n*?{}")


class Precondition(msgspec.Struct, frozen=True, kw_only=True):
    """`command` needs one of `files`; `asked` are the names in its arguments that the file must define."""

    command: str
    files: tuple[str, ...]
    asked: Callable[[list[str]], list[str] | None]
    """None where the arguments say that it looks elsewhere."""
    defined: Callable[[str], list[str] | None]
    """None where its names cannot be told by reading."""


def _make_asked(arguments: list[str]) -> list[str] | None:
    if any(each.startswith(("-C", "-f", "--file", "--directory", "--makefile", "-I")) for each in arguments):
        return None
    return [each for each in arguments if not each.startswith("-") and "=" not in each and not each.isdigit()]


def _make_defined(text: str) -> list[str] | None:
    """Targets; none can be told where the file includes others, has patterns, or makes names up."""
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith(("include", "-include", "sinclude", "define", ".DEFAULT", "$(eval")):
            return None
        head, colon, rest = line.partition(":")
        if not colon or line[:1] in ("\t", "#", " ") or rest.startswith("=") or "=" in head:
            continue
        if "%" in head or "$" in head:
            return None
        names += head.split()
    return names


def _npm_asked(arguments: list[str]) -> list[str] | None:
    if any(each.startswith(("--prefix", "-C", "--workspace", "-w")) for each in arguments):
        return None
    match [each for each in arguments if not each.startswith("-")]:
        case ["run" | "run-script", name, *_]:
            return [name]
        case ["test"]:
            return ["test"]
        case _:
            return None


def _npm_defined(text: str) -> list[str] | None:
    try:
        scripts = msgspec.json.decode(text)["scripts"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return [str(name) for name in scripts] if isinstance(scripts, dict) else None


PRECONDITIONS = (
    Precondition(
        command="make", files=("GNUmakefile", "makefile", "Makefile"), asked=_make_asked, defined=_make_defined
    ),
    Precondition(command="npm", files=("package.json",), asked=_npm_asked, defined=_npm_defined),
)


class Needs(msgspec.Struct, frozen=True):
    """What one call needs."""

    of: Precondition
    names: tuple[str, ...]


class Preconditions:
    def __init__(self, settings: PreconditionsGuard) -> None:
        del settings
        self._needs: dict[CallId, Needs] = {}

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case ModelReplied():
                return self._wanted(fact.message.calls)
            case Note(code=code, call_id=str(call_id)) if code == LOOKED:
                return self._looked(call_id, fact.data)
            case _:
                return ()

    def _wanted(self, calls: Sequence[ToolCall]) -> Sequence[Judgement]:
        """Behind a call that is no such command nothing is certain any more."""
        self._needs = {}
        looks: list[Judgement] = []
        for call in calls:
            needs = needs_of(call)
            if needs is None:
                break
            self._needs[call.id] = needs
            looks.append(Look(call_id=call.id, paths=needs.of.files, digest=partial(_kept, needs.of)))
        return looks

    def _looked(self, call_id: CallId, data: Detail) -> Sequence[Judgement]:
        needs = self._needs.get(call_id)
        if needs is None:
            return ()
        command, path = needs.of.command, data.get("path")
        if not path:
            return [_block(call_id, wording.no_file(command, needs.of.files), command)]
        names = data.get("names")
        if not isinstance(names, str):
            return ()
        missing = [name for name in needs.names if name not in names.split("\n")]
        if not missing:
            return ()
        return [_block(call_id, wording.not_in_file(command, missing[0], str(path), names.split("\n")), command)]


def _block(call_id: CallId, why: str, command: str) -> Block:
    return Block(guard=NAME, why=why, call_id=call_id, evidence={"command": command})


def _kept(of: Precondition, text: str) -> Detail:
    names = of.defined(text)
    said = None if names is None else "\n".join(names)
    return {"names": said if said is None or len(said) <= NAMES_MAX else None}


def needs_of(call: ToolCall) -> Needs | None:
    """What this call needs for certain."""
    if call.name != SHELL or call.problem:
        return None
    try:
        command = msgspec.json.decode(call.arguments)["command"]
        words = shlex.split(command) if SYNTAX.isdisjoint(command) else []
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None
    found = next((each for each in PRECONDITIONS if words[:1] == [each.command]), None)
    asked = None if found is None else found.asked(words[1:])
    return None if found is None or asked is None else Needs(found, tuple(asked))
