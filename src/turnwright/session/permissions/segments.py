"""A piece of a call that is judged by itself, and what kind of thing it would do."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from turnwright.session.permissions.syntax import UNKNOWN, Simple, Word

Kind: TypeAlias = Literal[
    "reads", "writes", "runs", "network", "commits", "outside", "secret", "protected", "grave", "foreign", "unparsed"
]

KINDS: dict[Kind, str] = {
    "reads": "only looks, and only at the workspace",
    "writes": "changes files of the workspace",
    "runs": "a command that may do anything",
    "network": "reaches other machines",
    "commits": "changes the history of a repository",
    "outside": "writes a file outside the workspace",
    "secret": "reads where keys and passwords are kept",
    "protected": "changes a file that makes something run later, or decides what may",
    "grave": "no undo brings it back, or it takes more rights",
    "foreign": "a tool of somebody else's, which no sandbox of ours holds",
    "unparsed": "cannot be read, so that nobody knows what it does",
}

GRAVITY: tuple[Kind, ...] = (
    "reads",
    "writes",
    "runs",
    "outside",
    "commits",
    "network",
    "foreign",
    "secret",
    "protected",
    "unparsed",
    "grave",
)
"""Of two pieces that ask, the user is told of the graver one."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is what rules are matched with: words without quotes, `UNKNOWN` for what only the shell will know."""

    text: str
    kind: Kind
    why: str = ""
    also: tuple[str, ...] = ()
    """Other ways to say the same. A rule that forbids or asks holds for these too."""
    hosts: tuple[str, ...] | None = None
    """The machines it names, where it names all that it reaches."""

    @property
    def shown(self) -> str:
        return self.text.replace(UNKNOWN, "…")


class Ground(Protocol):
    """What is to be known of the files that words name."""

    def inside(self, path: str) -> bool:
        """Whether it lies in the workspace, links followed. Relative ones are meant from there."""
        ...


def text_of(words: tuple[Word, ...]) -> str:
    return " ".join(word.text for word in words)


def segment(simple: Simple, kind: Kind, why: str = "", **more: tuple[str, ...]) -> Segment:
    return Segment(text=text_of(simple.words), kind=kind, why=why, **more)
