"""The filter on system calls, as the kernel wants it: a program in classic BPF, made here without any library.

What it lets through is the kernel's everyday face. What it refuses: looking into other processes, keys, BPF, io_uring,
everything that mounts, makes or enters namespaces, sockets other than those of the internet, typing into a terminal,
and the calls of a foreign processor, under which the same numbers mean other things.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias

from turnwright.machine.sandbox.syscalls import PROCESSORS, Processor

SocketReach: TypeAlias = Literal["internet", "none"]
"""Which sockets may be made: of the internet (in whatever network there is), or none but pairs."""

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _PROCESSOR_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPES, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_NETLINK_ROUTE = 0
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_NAMESPACES = 0x7E020000
_TIME_NAMESPACE = 0x80
"""Where `clone` has the signal; only `unshare` and `clone3` take it."""

_MODE_AT = MappingProxyType(
    {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
)
_MADE_WITH_MODE_AT = MappingProxyType({"open": (1, 2), "openat": (2, 3)})
"""Where the flags stand, and where the mode, which means something only with one of `_MAKES`."""
_MAKES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE's own bit
_LENDS_RIGHTS = 0o6000
"""A program with one of these bits runs with its owner's rights, whoever starts it; and a file that a command leaves
behind is the user's own."""
_BY_ARGUMENTS = ("clone", "unshare", "socket", "socketpair", "ioctl", "prlimit64", *_MODE_AT, *_MADE_WITH_MODE_AT)
_ABSENT = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Said not to exist: whoever asks has another way, and takes it. What `clone3` and `openat2` are asked for stands in
memory, where no filter can look."""

_Instruction: TypeAlias = tuple[int, int, int, int]


@cache
def filter_for(machine: str, sockets: SocketReach) -> bytes | None:
    """None for a processor that is not known here."""
    processor = PROCESSORS.get(machine)
    if processor is None:
        return None
    return b"".join(struct.pack("HBBI", *one) for one in _program(processor, sockets))


def _program(processor: Processor, sockets: SocketReach) -> Iterator[_Instruction]:
    yield (_LOAD, 0, 0, _PROCESSOR_AT)
    yield (_JUMP_EQUAL, 1, 0, processor.audit)
    yield _return(_KILL)
    yield (_LOAD, 0, 0, _NUMBER_AT)
    if processor.second_table is not None:
        yield (_JUMP_AT_LEAST, 0, 1, processor.second_table)
        yield _return(_KILL)
    for name, number in processor.numbers.items():
        if name not in _BY_ARGUMENTS:
            yield from _if_equal(number, [_refuse(errno.ENOSYS if name in _ABSENT else errno.EPERM)])
    for name, body in _by_arguments(sockets).items():
        if name in processor.numbers:  # the newer processors lack the older ways
            yield from _if_equal(processor.numbers[name], body)
    yield _return(_ALLOW)


def _by_arguments(sockets: SocketReach) -> dict[str, list[_Instruction]]:
    """Each body ends in a verdict of its own."""
    allowed = [_return(_ALLOW)]
    internet = [*_if_equal(_AF_INET, allowed), *_if_equal(_AF_INET6, allowed)] if sockets == "internet" else []
    refuse_lending = _if_any_bit(_LENDS_RIGHTS, [_refuse(errno.EPERM)])
    return {
        **{
            name: [_argument(flags), *_if_any_bit(_MAKES, [_argument(mode), *refuse_lending]), *allowed]
            for name, (flags, mode) in _MADE_WITH_MODE_AT.items()
        },
        **{name: [_argument(mode), *refuse_lending, *allowed] for name, mode in _MODE_AT.items()},
        # Limits of one's own, not those of another process.
        "prlimit64": [_argument(0), *_if_equal(0, allowed), _refuse(errno.EPERM)],
        "clone": [_argument(0), *_if_any_bit(_NAMESPACES, [_refuse(errno.EPERM)]), *allowed],
        "unshare": [_argument(0), *_if_any_bit(_NAMESPACES | _TIME_NAMESPACE, [_refuse(errno.EPERM)]), *allowed],
        # Netlink for the addresses of our own network alone: that is how interfaces are listed.
        "socket": [
            _argument(0),
            *internet,
            *_if_equal(_AF_NETLINK, [_argument(2), *_if_equal(_NETLINK_ROUTE, allowed), _refuse(errno.EAFNOSUPPORT)]),
            _refuse(errno.EAFNOSUPPORT),
        ],
        # A pair of streams can reach nobody else; one of datagrams could be pointed at any socket there is.
        "socketpair": [
            _argument(0),
            *_if_equal(
                _AF_UNIX,
                [
                    _argument(1),
                    (_AND, 0, 0, _SOCK_TYPES),
                    *_if_equal(_SOCK_STREAM, allowed),
                    *_if_equal(_SOCK_SEQPACKET, allowed),
                    _refuse(errno.EAFNOSUPPORT),
                ],
            ),
            _refuse(errno.EAFNOSUPPORT),
        ],
        # The kernel looks at the low half of the command alone, and so does this.
        "ioctl": [
            _argument(1),
            *_if_equal(_TIOCSTI, [_refuse(errno.EPERM)]),
            *_if_equal(_TIOCLINUX, [_refuse(errno.EPERM)]),
            *_if_equal(_TIOCSETD, [_refuse(errno.EPERM)]),
            *allowed,
        ],
    }


def _if_equal(value: int, body: list[_Instruction]) -> list[_Instruction]:
    return [(_JUMP_EQUAL, 0, len(body), value), *body]


def _if_any_bit(bits: int, body: list[_Instruction]) -> list[_Instruction]:
    return [(_JUMP_ANY_BIT, 0, len(body), bits), *body]


def _argument(index: int) -> _Instruction:
    """The low half of an argument, on the processors there are here (little endian)."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _refuse(code: int) -> _Instruction:
    return _return(_ERRNO | code)


def _return(verdict: int) -> _Instruction:
    return (_RETURN, 0, 0, verdict)
