"""A function's signature and docstring as the JSON Schema and the words a model is given (T4)."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from turnwright.tools.context import ToolContext

_SECTIONS = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What was read off a function. `arguments` is a Struct type with one field per parameter of the model."""

    arguments: type[msgspec.Struct]
    context: str | None
    description: str
    parameters: dict[str, Any]


def read_signature(function: Callable[..., Any], name: str) -> Signature:
    description, documented = read_docstring(inspect.getdoc(function) or "")
    hints = _hints(function, name)
    context: str | None = None
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if hints.get(parameter.name) is ToolContext:
            context = parameter.name
        else:
            fields.append(_field(parameter, hints, documented, name))
    unknown = documented.keys() - {field[0] for field in fields} - {context}
    if unknown:
        raise TypeError(f"tool {name}: its docstring documents {', '.join(sorted(unknown))}, which it does not take")
    arguments = msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True, frozen=True)
    return Signature(
        arguments=arguments, context=context, description=description, parameters=_schema_of(arguments, name)
    )


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A Google-style docstring as its prose and its arguments."""
    prose: list[str] = []
    arguments: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in text.splitlines():
        heading = _SECTIONS.match(line)
        stripped = line.strip()
        if heading is not None:
            section = heading[1]
        elif section not in ("Args", "Arguments"):
            prose += [line] if not section else []
        elif stripped:
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            found = _ARGUMENT.match(stripped) if depth <= indent else None
            if found is not None:
                current = found[1]
                arguments[current] = found[2]
            elif current:
                arguments[current] = f"{arguments[current]} {stripped}".strip()
    return "\n".join(prose).strip(), arguments


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as missing:
        raise TypeError(
            f"tool {name}: an annotation cannot be resolved ({missing}); name types that exist at run time"
        ) from missing


def _field(
    parameter: inspect.Parameter, hints: dict[str, Any], documented: dict[str, str], name: str
) -> tuple[str, Any, Any]:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise TypeError(f"tool {name}: parameter {parameter.name} cannot be given by name, so a model cannot give it")
    if parameter.name not in hints:
        raise TypeError(f"tool {name}: parameter {parameter.name} has no type annotation")
    kind, words = _split_annotation(hints[parameter.name])
    words = words or documented.get(parameter.name, "")
    annotated = Annotated[kind, msgspec.Meta(description=words)] if words else kind
    match parameter.default:
        case inspect.Parameter.empty:
            return parameter.name, annotated, msgspec.NODEFAULT
        case (list() | dict() | set()) as mutable if mutable:
            return parameter.name, annotated, msgspec.field(default_factory=partial(copy.deepcopy, mutable))
        case default:
            return parameter.name, annotated, default


def _split_annotation(hint: Any) -> tuple[Any, str]:
    """`Annotated[int, "words", Meta(ge=1)]` as the type with its constraints, and the words."""
    if get_origin(hint) is not Annotated:
        return hint, ""
    kind, *extras = get_args(hint)
    words = " ".join(extra for extra in extras if isinstance(extra, str))
    for extra in extras:
        if isinstance(extra, msgspec.Meta):
            kind = Annotated[kind, extra]
    return kind, words


def _schema_of(arguments: type[msgspec.Struct], name: str) -> dict[str, Any]:
    try:
        (top,), definitions = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as bad:
        raise TypeError(f"tool {name}: {bad}") from bad
    schema: dict[str, Any] = definitions.pop(top["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    if definitions:
        schema["$defs"] = dict(definitions)
    return schema
