"""Layers: what one source said, leaf by leaf, each value with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args, get_origin

import msgspec
import msgspec.structs

from turnwright.schema.errors import ConfigError
from turnwright.schema.masking import mask
from turnwright.schema.settings import Settings

KeyPath: TypeAlias = tuple[str, ...]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value was said, for people."""

    layer: str
    """`default`, `user`, `project`, `file`, `environment` or `flag`."""
    where: str = ""
    """`path:line`, the variable or the flag."""

    def __str__(self) -> str:
        return self.where or self.layer


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A value as a source gave it."""

    path: KeyPath
    value: object
    place: Place


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A value that fits its setting."""

    value: object
    place: Place


Layer: TypeAlias = Mapping[KeyPath, Leaf]


def dotted(path: Iterable[str]) -> str:
    return ".".join(path)


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def open_section(kind: Any) -> Any:
    """What a free name holds in a mapping such as `catalogue.models`; None for everything else."""
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    return None


def children(kind: Any) -> dict[str, Any]:
    """The fixed keys of a section and their types, without the field that gathers its free names."""
    if not is_section(kind):
        return {}
    rest = getattr(kind, "rest", None)
    return {field.name: field.type for field in msgspec.structs.fields(kind) if field.name != rest}


def free_names(kind: Any) -> Any:
    """The type behind keys that a user names himself, or None where all keys are fixed."""
    if kind is Any:
        return Any  # below a key that may hold anything, anything may be nested
    if (value := open_section(kind)) is not None:
        return value
    if is_section(kind) and (rest := getattr(kind, "rest", None)):
        return next(open_section(field.type) for field in msgspec.structs.fields(kind) if field.name == rest)
    return None


def kind_at(path: KeyPath, place: Place) -> Any:
    """The type of the setting at `path`; a ConfigError that suggests the nearest name where there is none."""
    kind: Any = Settings
    for depth, name in enumerate(path):
        known = children(kind)
        below = known.get(name, free_names(kind))
        if below is None:
            raise _unknown(path[: depth + 1], sorted(known), place)
        kind = below
    return kind


def layer_of(said: Iterable[Said], *, textual: bool = False) -> Layer:
    """Every value in its setting's type, or a ConfigError with its place. `textual` values come from variables, where
    all is text."""
    layer: dict[KeyPath, Leaf] = {}
    for one in said:
        kind = kind_at(one.path, one.place)
        if not (is_section(kind) or open_section(kind) is not None):
            layer[one.path] = Leaf(value=_converted(one, kind, textual), place=one.place)
        elif one.value is None:
            if (named := _named(one.path, kind)) is not None:
                layer[named.path] = Leaf(value=named.value, place=one.place)
        else:
            raise ConfigError(
                f"{one.place}: {dotted(one.path)} is a section, not a value.",
                remedy=f"It has: {', '.join(sorted(children(kind))) or 'keys that you name'}.",
            )
    return layer


def _named(path: KeyPath, kind: Any) -> Said | None:
    """A thing that the user names himself is there once it is named, though nothing else is said of it: its first
    setting is then said to be what it is anyway."""
    if not is_section(kind) or path[-1] in children(kind_at(path[:-1], Place(layer="default"))):
        return None
    first = next((each for each in msgspec.structs.fields(kind) if each.default is not msgspec.NODEFAULT), None)
    return None if first is None else Said(path=(*path, first.name), value=first.default, place=Place(layer="default"))


def _converted(said: Said, kind: Any, textual: bool) -> object:
    value = said.value
    if textual and isinstance(value, str) and tuple in (get_origin(kind), *map(get_origin, get_args(kind))):
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        return msgspec.convert(value, kind, strict=not textual)
    except msgspec.ValidationError as bad:
        problem = _one_of(kind) or _in_words(str(bad))
        raise ConfigError(f"{said.place}: {dotted(said.path)} cannot be {_shown(said.value)}: {problem}.") from bad


def merged(layers: Sequence[Layer]) -> dict[KeyPath, Leaf]:
    """Later layers win, leaf by leaf."""
    result: dict[KeyPath, Leaf] = {}
    for layer in layers:
        result.update(layer)
    return result


def settings_from(leaves: Mapping[KeyPath, Leaf]) -> Settings:
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        at = tree
        for name in _stored(path)[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = leaf.value
    return msgspec.convert(tree, Settings)


def leaves_of(settings: Settings) -> Iterator[tuple[KeyPath, object]]:
    """Every value there is, in the order of the tree, by the path a user would write."""
    yield from _leaves((), settings)


def _leaves(path: KeyPath, value: object) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(value, msgspec.Struct):
        rest = getattr(type(value), "rest", None)
        for name in type(value).__struct_fields__:
            yield from _leaves(path if name == rest else (*path, name), getattr(value, name))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves((*path, name), item)
    else:
        yield path, value


def _stored(path: KeyPath) -> KeyPath:
    """Where the value at a user's `path` lives in the structs."""
    kind: Any = Settings
    result: list[str] = []
    for name in path:
        known = children(kind)
        if name not in known and (rest := getattr(kind, "rest", None)):
            result.append(rest)
        result.append(name)
        kind = known.get(name, free_names(kind))
    return tuple(result)


def _unknown(path: KeyPath, known: Sequence[str], place: Place) -> ConfigError:
    import difflib  # costs a few milliseconds, and only a mistake needs it

    near = difflib.get_close_matches(path[-1], known, n=3, cutoff=0.6)
    near.sort(key=lambda each: sorted(each) != sorted(path[-1]))  # first of all letters that have changed places
    if near:
        remedy = f"Did you mean {dotted((*path[:-1], near[0]))}?"
    elif known:
        remedy = f"Known here: {', '.join(known)}."
    else:
        remedy = f"{dotted(path[:-1])} is a single value."
    return ConfigError(f"{place}: {dotted(path)} is not a setting.", remedy=remedy)


def _one_of(kind: Any) -> str:
    literal = next((each for each in (kind, *get_args(kind)) if get_origin(each) is Literal), None)
    if literal is not None and get_origin(kind) is not tuple:
        return f"it is one of {', '.join(map(str, get_args(literal)))}"
    if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
        return f"it is a list of any of these: {', '.join(map(str, get_args(get_args(kind)[0])))}"
    return ""


def _shown(value: object) -> str:
    """A wrong value may be a key in the wrong place."""
    text = mask("null" if value is None else str(value))
    return repr(text if len(text) <= 60 else text[:57] + "...")


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a section",
}


def _in_words(problem: str) -> str:
    """msgspec's sentence in the words of someone who writes YAML."""
    for theirs, ours in _WORDS.items():
        problem = problem.replace(f"`{theirs}`", ours).replace(f"`{theirs} | null`", f"{ours} or null")
    return problem[:1].lower() + problem[1:]
