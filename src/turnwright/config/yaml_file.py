"""A YAML file as a list of values with their lines.

Read from parser events rather than with YAML's own loader: that gives every key its line, leaves no room for tags
that make objects or aliases that multiply, and lets `off` and `yes` be words, as YAML 1.2 has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwright.config.layers import KeyPath, Place, Said, dotted
from turnwright.schema.errors import ConfigError

if TYPE_CHECKING:
    from yaml.events import Event

FILE_BYTES_MAX = 1 << 20
DEPTH_MAX = 20


def file_bytes(path: Path) -> bytes | None:
    """None where there is no such file."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as bad:
        raise ConfigError(
            f"The configuration {path} cannot be read: {bad.strerror}.", remedy="Check the file and its permissions."
        ) from bad
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"The configuration {path} is larger than 1 MiB.", remedy="Is it the right file?")
    return raw


def said_in(raw: bytes, path: Path, layer: str) -> list[Said]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = raw[: bad.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: the file is not UTF-8.", remedy="Save it as UTF-8.") from bad
    return said_in_text(text, path, layer)


def said_in_text(text: str, path: Path, layer: str) -> list[Said]:
    import yaml  # costs 15 ms, and only a file that exists needs it

    try:
        return list(_Reader(yaml.parse(text, Loader=yaml.SafeLoader), path, layer).document())
    except yaml.MarkedYAMLError as bad:
        line = f":{bad.problem_mark.line + 1}" if bad.problem_mark else ""
        raise ConfigError(f"{path}{line}: this is not YAML: {bad.problem or bad.context}.") from bad
    except yaml.YAMLError as bad:
        raise ConfigError(f"{path}: this is not YAML: {' '.join(str(bad).split())}.") from bad


class _Reader:
    """Recursive descent over parser events."""

    def __init__(self, events: Iterator[Event], path: Path, layer: str) -> None:
        import yaml.events

        self._events = events
        self._path = path
        self._layer = layer
        self._kinds = yaml.events

    def document(self) -> Iterator[Said]:
        kinds = self._kinds
        documents = 0
        for event in self._events:
            if isinstance(event, kinds.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refused(event, "there is a second document")
            elif isinstance(event, kinds.MappingStartEvent):
                self._allow(event, 0)
                yield from self._mapping((), 0)
            elif isinstance(event, kinds.ScalarEvent) and _plain(event) is None:
                continue  # a file of comments
            elif not isinstance(event, kinds.StreamStartEvent | kinds.StreamEndEvent | kinds.DocumentEndEvent):
                raise self._refused(event, "the file must hold keys and values")

    def _mapping(self, path: KeyPath, depth: int) -> Iterator[Said]:
        seen: dict[str, int] = {}
        while not isinstance(key := next(self._events), self._kinds.MappingEndEvent):
            self._allow(key, depth)
            if not isinstance(key, self._kinds.ScalarEvent):
                raise self._refused(key, f"a key of {dotted(path) or 'the file'} is not a word")
            if key.value in seen:
                raise self._refused(key, f"{dotted((*path, key.value))} stands on line {seen[key.value]} already")
            seen[key.value] = self._line(key)
            yield from self._value((*path, key.value), self._place(key), depth + 1)

    def _value(self, path: KeyPath, place: Place, depth: int) -> Iterator[Said]:
        event = next(self._events)
        self._allow(event, depth)
        if not isinstance(event, self._kinds.MappingStartEvent):
            yield Said(path=path, value=self._item(event, depth), place=place)
            return
        empty = True
        for said in self._mapping(path, depth):
            empty = False
            yield said
        if empty:  # its name is still to be checked
            yield Said(path=path, value=None, place=place)

    def _item(self, event: Event, depth: int) -> object:
        self._allow(event, depth)
        if isinstance(event, self._kinds.ScalarEvent):
            return _plain(event)
        if isinstance(event, self._kinds.MappingStartEvent):
            return {".".join(said.path): said.value for said in self._mapping((), depth)}
        if not isinstance(event, self._kinds.SequenceStartEvent):
            raise self._refused(event, "this is neither a value nor a list")
        items = []
        while not isinstance(inner := next(self._events), self._kinds.SequenceEndEvent):
            items.append(self._item(inner, depth + 1))
        return items

    def _allow(self, event: Any, depth: int) -> None:
        if isinstance(event, self._kinds.AliasEvent) or getattr(event, "anchor", None):
            raise self._refused(event, "anchors and aliases are not read")
        if getattr(event, "tag", None):
            raise self._refused(event, f"the tag {event.tag} is not read")
        if depth > DEPTH_MAX:
            raise self._refused(event, f"values are nested deeper than {DEPTH_MAX} levels")

    def _line(self, event: Event) -> int:
        return event.start_mark.line + 1 if event.start_mark else 0

    def _place(self, event: Event) -> Place:
        return Place(layer=self._layer, where=f"{self._path}:{self._line(event)}")

    def _refused(self, event: Event, why: str) -> ConfigError:
        return ConfigError(f"{self._path}:{self._line(event)}: {why}.", remedy="Write plain keys and values.")


_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = r"[-+]?[0-9]{1,30}"
_DECIMAL = r"[-+]?(\.[0-9]{1,30}|[0-9]{1,30}(\.[0-9]{0,30})?)([eE][-+]?[0-9]{1,3})?"
_NO_NUMBER = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"


def _plain(event: Any) -> object:
    """A scalar by the core schema of YAML 1.2; what is quoted is text."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if re.fullmatch(_WHOLE, text):
        return int(text)
    if re.fullmatch(_DECIMAL, text):
        return float(text)
    return float(text.replace(".", "")) if re.fullmatch(_NO_NUMBER, text) else text
