"""The reference pages that the code itself can write: settings, commands, exit codes, facts.

usage: reference.py [--write]
Without --write it fails where a page on disk is not what the code says.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import msgspec.inspect

from turnwright.cli import exit_codes
from turnwright.cli.parser import parser_of
from turnwright.cli.registry import COMMANDS
from turnwright.kernel.guards.registry import GUARDS, thresholds
from turnwright.schema import errors, facts, live, verdicts
from turnwright.schema.facts import FACT_TYPES
from turnwright.schema.limits import Dispatch, Limits, Retry
from turnwright.schema.sandbox import UNCONFINED, Confinement
from turnwright.schema.settings import Settings
from turnwright.session.permissions.git import READS as GIT_READS
from turnwright.session.permissions.levels import by_level
from turnwright.session.permissions.readers import READERS
from turnwright.session.permissions.risk import TIERS
from turnwright.session.permissions.segments import KINDS, Segment
from turnwright.session.permissions.shell import SHELLS
from turnwright.session.permissions.tool_segments import FILES, OURS, WRITERS
from turnwright.session.permissions.wrappers import RUNNERS, WRAPPERS

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference.py. Change the docstrings in the code, then: python3 dev.py write -->\n"


def config_page() -> str:
    return "\n".join(
        [
            "# Settings",
            NOTE,
            "Layers, each over the one before, value by value: defaults, the user's `config.yaml`, the nearest",
            "`.turnwright/config.yaml` from the workspace up to its repository's root (once you",
            "[trust it](../how-to/trust-a-folder.md)), `--config FILE`, `TURNWRIGHT_*` variables, flags.",
            "An unknown key, a wrong type and a key that stands twice are errors with file and line.",
            "`turnwright config explain` shows every value and where it came from.",
            "",
            "The user's `config.yaml` lies in `$TURNWRIGHT_HOME`, else in `$XDG_CONFIG_HOME/turnwright`",
            "(`~/.config/turnwright`). With `TURNWRIGHT_HOME` set, data, state and cache are folders below it;",
            "else each follows its XDG variable.",
            "",
            "A variable is `TURNWRIGHT_` and the key in capitals, levels parted by two underscores:",
            "`TURNWRIGHT_LOOP__LIMITS__MAX_STEPS=50`. Lists have commas; `null` switches a limit off.",
            "",
            "Files are YAML 1.2: `off` and `yes` are words, only `true` and `false` are not. Anchors, aliases and tags",
            "are refused. Keys of providers never stand in a file: name the variable that holds them.",
            "",
            *_section_rows("", Settings),
        ]
    )


def _section_rows(prefix: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    documented = field_docs(kind)
    values, sections = [], []
    for field in msgspec.structs.fields(kind):
        key = field.name if field.name != getattr(kind, "rest", None) else ""
        below = _struct_of(field.type)
        if below is not None:
            sections.append((_joined(prefix, key) + ("" if below is field.type else _joined(".", "<name>")), below))
        elif get_origin(field.type) is dict:
            said = "anything" if get_args(field.type)[1] is Any else "text"
            values.append((f"{_joined(prefix, key)}.<name>", said, "", documented.get(field.name, "")))
        else:
            values.append(
                (_joined(prefix, key), type_said(field.type), _default(field.default), documented.get(field.name, ""))
            )
    if prefix:
        yield f"## `{prefix}`\n"
        said = _flat(kind.__doc__)
        yield _sentence(said.removeprefix(f"`{prefix}`").lstrip(".: ")) + "\n"
    if values:
        yield "| key | type | default | |"
        yield "| --- | --- | --- | --- |"
        for key, said, default, about in values:
            yield f"| `{key}` | {said} | {default} | {about} |"
        yield ""
    for name, below in sections:
        yield from _section_rows(name, below)


def _joined(prefix: str, key: str) -> str:
    return ".".join(part for part in (prefix.strip("."), key) if part) if prefix != "." else f".{key}"


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    if get_origin(kind) is dict:
        kind = get_args(kind)[1]
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def type_said(kind: Any) -> str:
    """A type in the words of someone who writes YAML."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if hasattr(kind, "__metadata__"):
        return f"{type_said(kind.__origin__)} {_bounds(kind.__metadata__[0])}"
    inner = [part for part in get_args(kind) if part is not type(None)]
    if get_origin(kind) is tuple:
        return "list"
    if inner:
        return f"{' or '.join(map(type_said, inner))}, or null"
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}[kind]


def _bounds(meta: msgspec.Meta) -> str:
    return f"≥ {meta.ge:g}" if meta.ge is not None else f"> {meta.gt:g}"


def cli_page() -> str:
    lines = [
        "# Commands",
        NOTE,
        "`tw` is `turnwright`. What the exit codes mean is in [exit-codes.md](exit-codes.md).",
        "",
    ]
    lines += ["| command | |", "| --- | --- |"]
    lines += [f"| [`{name}`](#turnwright-{name.replace(' ', '-')}) | {about} |" for name, about in COMMANDS.items()]
    for name in COMMANDS:
        lines += ["", *_command_rows(name)]
    return "\n".join([*lines, ""])


def _command_rows(name: str) -> Iterator[str]:
    parser, module = parser_of(name)
    yield f"## turnwright {name}"
    yield ""
    yield _sentence(_flat(inspect.getdoc(module)).partition(": ")[2])
    yield ""
    yield "| argument | default | |"
    yield "| --- | --- | --- |"
    for action in parser._actions:
        if action.dest == "help":
            continue
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = "" if action.nargs == 0 or not action.option_strings else f" {_value_of(action)}"
        optional = "" if action.option_strings or action.nargs != "?" else " (optional)"
        required = " (required)" if action.option_strings and action.required else ""
        yield f"| `{names}{value}`{optional}{required} | {_default_of(action)} | {_help_of(action)} |"


def _value_of(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


def _default_of(action: argparse.Action) -> str:
    return (
        f"`{action.default}`"
        if isinstance(action.default, str | int | float) and action.default not in ("", False)
        else ""
    )


def _help_of(action: argparse.Action) -> str:
    choices = f": {', '.join(f'`{choice}`' for choice in action.choices)}" if action.choices else ""
    return f"{action.help or ''}{choices}".replace("|", "\\|")


def permissions_page() -> str:
    """What each level of autonomy does by itself, and what is known of commands."""
    confined = Confinement(level="workspace-write", tier="namespaces", network="off")
    head = "| kind | what it is | 0 | 1 | 2 | 2, sandboxed | 3 | 3, sandboxed | 4 |"
    columns = [(0, UNCONFINED), (1, UNCONFINED), (2, UNCONFINED), (2, confined), (3, UNCONFINED), (3, confined)]
    columns += [(4, UNCONFINED)]
    rows = []
    for kind, said in KINDS.items():
        segment = Segment(text="", kind=kind)
        actions = [by_level(segment, autonomy, confinement)[0] for autonomy, confinement in columns]
        rows.append(f"| `{kind}` | {said} | {' | '.join(actions)} |")
    return "\n".join(
        [
            "# Permissions by default",
            NOTE,
            "What each level of autonomy does with each kind of act, before any rule. *Sandboxed*: commands are held",
            "by a sandbox of rank 2 or more whose network is off or a list of hosts. How to use it is in",
            "[Permissions](../how-to/permissions.md).",
            "",
            head,
            f"| --- | --- |{' --- |' * len(columns)}",
            *rows,
            "",
            "`network` is also allowed from autonomy 3 on where every machine it names is one of `permissions.hosts`.",
            "",
            "## Commands that only look",
            "",
            "As long as none of their options makes them do more, and what they name lies in the workspace:",
            "",
            _prose(READERS),
            "",
            f"`git` with: {_prose(GIT_READS)}",
            "",
            "`find`, `sed` and `awk` are read as the programs that they are given.",
            "",
            "## Commands that start another",
            "",
            "What they start is judged instead:",
            "",
            _prose([*WRAPPERS, *SHELLS, "eval", "trap"]),
            "",
            "These are judged too, with what they start: " + _prose(RUNNERS),
            "",
            "## Tools",
            "",
            f"Change files: {_prose(WRITERS)} Look at files: {_prose(FILES)} Touch nothing but the conversation: "
            f"{_prose(OURS)}",
            "",
            "## Tiers of risk",
            "",
            "\n".join(f"- {tier}: {least} and more" for least, tier in TIERS),
            "",
        ]
    )


def _prose(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) + "."


def guards_page() -> str:
    """One table for each guard, from the registry that the tests are made from too."""
    lines = [
        "# Guards",
        NOTE,
        "In the order in which they are asked. Each has `enabled` besides what is listed. What they are for is in",
        "[how guards work](../explanation/guards.md), how to set them in [Guards](../how-to/guards.md).",
    ]
    for kind in GUARDS:
        documented = field_docs(kind.settings)
        ends = ", ".join(f"`{reason}`" for reason in kind.reasons) or "never ends a turn"
        lines += ["", f"## `{kind.where}`", "", f"Watches {kind.watches}.", ""]
        lines += [f"Recorded as `guard.tripped` with `guard: {kind.name}` and as verdict "]
        lines[-1] += f"{', '.join(f'`{verdict}`' for verdict in kind.verdicts)}. Ends a turn as: {ends}."
        found = thresholds(kind.settings())
        if found:
            lines += ["", "| key | default | |", "| --- | --- | --- |"]
            lines += [f"| `{name}` | {_default(value)} | {documented.get(name, '')} |" for name, value in found.items()]
    return "\n".join([*lines, ""])


def _default(value: object) -> str:
    said = msgspec.json.encode(value).decode()
    return "" if said in ('""', "[]") else f"`{said}`"


def exit_codes_page() -> str:
    documented = field_docs(exit_codes.ExitCode)
    lines = [
        "# Exit codes",
        NOTE,
        "They never change their meaning.",
        "",
        "| code | name | when |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {code.value} | {code.name.lower()} | {documented[code.name]} |" for code in exit_codes.ExitCode]
    lines += ["", "## By the reason a turn ended", "", "| reason | code |", "| --- | --- |"]
    for reason in get_args(verdicts.StopReason):
        refused = f", {exit_codes.of_reason(reason, key_refused=True):d} where the key was refused"
        code = exit_codes.of_reason(reason)
        same = exit_codes.of_reason(reason, key_refused=True) == code
        lines.append(f"| `{reason}` | {code:d}{'' if same else refused} |")
    lines += ["", "## By error", "", "| error | code |", "| --- | --- |"]
    for kind in _error_kinds(errors.TurnwrightError):
        lines.append(f"| `{kind.__name__}` | {exit_codes.of_error(kind('')):d} |")
    return "\n".join([*lines, ""])


def _error_kinds(kind: type[errors.TurnwrightError]) -> Iterator[type[errors.TurnwrightError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from _error_kinds(below)


def facts_page() -> str:
    lines = [
        "# Facts and live events",
        NOTE,
        "A fact is durable and numbered; a live event is neither. Every face shows the same JSON objects, one a line.",
        "Types and fields are only ever added: keep and skip what you do not know.",
        "`turnwright schema facts` prints the JSON Schema.",
        "",
        "Every fact has `type`, `schema_version`, `conversation_id`, `seq` (from 1, without gaps), `at` (UTC",
        "milliseconds), `visibility` (`model` enters history, `host` is for people and programs, `audit` is for the",
        "record) and, where they apply, `turn_id`, `step_id` and `call_id`. A field with its default is left out.",
        "",
    ]
    envelope = {field.name for field in msgspec.structs.fields(facts.Fact)}
    for tag, kind in FACT_TYPES.items():
        lines += _kind_rows(tag, kind, envelope, f"Visibility: {kind.visibility}.")
    lines += [
        "# Live events",
        "",
        "Each has `type`, `conversation_id` and, where they apply, `turn_id` and `step_id`.",
        "",
    ]
    envelope = {field.name for field in msgspec.structs.fields(live.Live)}
    for event in get_args(live.LiveEvent):
        lines += _kind_rows(str(event.__struct_config__.tag), event, envelope, "")
    lines += ["# What they hold", ""]
    for held in _held():
        lines += _kind_rows(held.__name__, held, set(), "")
    return "\n".join(lines)


def _held() -> list[type[msgspec.Struct]]:
    """The structs inside facts, in the order in which they are met."""
    found: dict[str, type[msgspec.Struct]] = {}
    for kind in (*FACT_TYPES.values(), *get_args(live.LiveEvent)):
        for component in _structs_within(kind):
            found.setdefault(component.__name__, component)
    return list(found.values())


def _structs_within(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for field in msgspec.structs.fields(kind):
        for part in (field.type, *get_args(field.type)):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield part
                yield from _structs_within(part)


def _kind_rows(tag: str, kind: type[msgspec.Struct], envelope: set[str], about: str) -> Iterator[str]:
    own = "" if kind.__doc__ in (None, *(base.__doc__ for base in kind.__mro__[1:])) else _flat(kind.__doc__) + " "
    yield f"## `{tag}`"
    yield ""
    if own or about:
        yield f"{own}{about}".strip()
        yield ""
    documented = field_docs(kind)
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in envelope]
    if fields:
        properties = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
        yield "| field | type | always | |"
        yield "| --- | --- | --- | --- |"
        for field in fields:
            always = "yes" if field.required else ""
            said = _json_type(properties[field.encode_name])
            yield f"| `{field.encode_name}` | {said} | {always} | {documented.get(field.name, '')} |"
        yield ""


def _json_type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"anyOf": list(kinds)}:
            return " or ".join(map(_json_type, kinds))
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": dict(items)}:
            return f"list of {_json_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_json_type(values)}"
        case _:
            return str(schema.get("type", "anything"))


def field_docs(kind: type) -> dict[str, str]:
    """The strings that stand under the fields of a class and of those it is made from: Python forgets them, its source
    does not."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("turnwright."):
            found |= _own_field_docs(each)
    return found


def _own_field_docs(kind: type) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    found = {}
    for field, said in itertools.pairwise(body):
        if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and isinstance(said.value.value, str):
            match field:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    found[name] = _flat(said.value.value)
                case _:
                    pass
    return found


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


WRITTEN: dict[str, Callable[[], str]] = {
    "config.md": config_page,
    "cli.md": cli_page,
    "exit-codes.md": exit_codes_page,
    "permissions.md": permissions_page,
    "guards.md": guards_page,
    "facts.md": facts_page,
}


def undocumented() -> list[str]:
    """Settings that nobody has explained."""
    kinds: list[type[msgspec.Struct]] = [Settings, Limits, Retry, Dispatch]
    missing = []
    while kinds:
        kind = kinds.pop()
        documented = field_docs(kind)
        for field in msgspec.structs.fields(kind):
            below = _struct_of(field.type)
            if below is not None:
                kinds.append(below)
            elif field.name not in documented:
                missing.append(f"{kind.__name__}.{field.name}")
    return sorted(set(missing))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    problems = [f"{name} has no docstring" for name in undocumented()]
    for name, page in WRITTEN.items():
        path = PAGES / name
        if args.write:
            path.write_text(page(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != page():
            problems.append(f"docs/reference/{name} is not what the code says: python3 dev.py write")
    print("\n".join(problems) or "the reference is up to date")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
