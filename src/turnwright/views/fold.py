"""What views share. A fold is `(state, recorded) -> state`, live and stored alike, at a cost that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from turnwright.schema.facts import Recorded

T = TypeVar("T")
State = TypeVar("State")

Fold: TypeAlias = Callable[[State, Recorded], State]
Blob: TypeAlias = Callable[[str], "bytes | None"]
"""A payload that is stored apart, by its SHA-256; None where it is gone."""


def folded(fold: Fold[State], start: State, facts: Iterable[Recorded]) -> State:
    return reduce(fold, facts, start)


class Log(Generic[T]):
    """A sequence that only grows. `add` gives a longer one in constant time and leaves the old one as it was.

    Both share one list; a state that was kept aside and is added to again takes its own copy, so that two branches
    never see each other. A plain tuple would copy the whole past for every fact.
    """

    __slots__ = ("_items", "_length")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    def add(self, *items: T) -> Log[T]:
        longer: Log[T] = Log()
        # The empty one may be a struct's default, which everybody shares.
        shared = self._length > 0 and len(self._items) == self._length
        longer._items = self._items if shared else self._items[: self._length]
        longer._items.extend(items)
        longer._length = self._length + len(items)
        return longer

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"
