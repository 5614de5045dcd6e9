"""Which hosts commands may reach, and what counts as the name of one. Pure; asked before anything is looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from turnwright.schema.errors import InputError

PORTS = frozenset({80, 443})
"""What the web speaks on. Another port of an allowed host may be its database."""

_NAME_CHARS_MAX = 253
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class Refused(Exception):
    """An answer for whoever asked: one sentence, and the status it is sent with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HostList(msgspec.Struct, frozen=True):
    """Names, and names below a name. Empty: nothing is allowed."""

    exact: frozenset[str] = frozenset()
    below: tuple[str, ...] = ()
    """With their leading dot, so that `evilexample.test` is not taken for one below `example.test`."""

    def allows(self, host: str) -> bool:
        return host in self.exact or host.endswith(self.below)


def host_list(entries: Sequence[str]) -> HostList:
    """From what the user wrote: `example.test`, or `*.example.test` for all names below it."""
    exact: set[str] = set()
    below: dict[str, None] = {}
    for entry in entries:
        name = entry.lower()
        starred = name.startswith("*.")
        name = name.removeprefix("*.")
        if not is_name(name) or (starred and "." not in name):
            raise InputError(
                f"{entry!r} is not the name of a host that commands may reach.",
                remedy="Write a name like `example.org`, or `*.example.org` for those below it: no scheme, port, path "
                "or address, and other alphabets in their xn-- form.",
            )
        if starred:
            below[f".{name}"] = None
        else:
            exact.add(name)
    return HostList(frozenset(exact), tuple(below))


def is_name(text: str) -> bool:
    """A host's name in lower case, and nothing else that a resolver would also take.

    Addresses are no names: not as four numbers, and not in the older spellings (`127.1`, `0x7f000001`, `2130706433`)
    that resolvers still turn into addresses without asking anybody. So a name is one whose last label is no number.
    """
    labels = text.split(".")
    return (
        len(text) <= _NAME_CHARS_MAX
        and all(_LABEL.fullmatch(label) for label in labels)
        and not _NUMBER.fullmatch(labels[-1])
    )


def parse_authority(authority: bytes, default_port: int | None = None) -> tuple[str, int]:
    """`host:port` as a client wrote it. Parsed here and nowhere again: what is checked is what is looked up.

    Any byte that no host's name has (a blank, `@`, `%`, NUL, `/`, a second colon) refuses the whole, because two
    parsers that read it differently are how a check is passed for one host and a connection made to another.
    """
    host_bytes, colon, port_bytes = authority.partition(b":")
    try:
        host = host_bytes.decode("ascii").lower()
    except UnicodeDecodeError:
        raise Refused(400, f"{authority!r} is not the name of a host and a port.") from None
    if not is_name(host):
        raise Refused(400, f"{authority!r} does not name a host: addresses and other spellings are refused.")
    if not colon and default_port is not None:
        return host, default_port
    if not re.fullmatch(rb"[1-9][0-9]{0,4}", port_bytes):
        raise Refused(400, f"{authority!r} names no port.")
    return host, int(port_bytes)
