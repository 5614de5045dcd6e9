"""What clients say to a proxy. Pure; everything here is foreign and hostile."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from turnwright.wire.egress.names import Refused, parse_authority


class Asked(msgspec.Struct, frozen=True):
    host: str
    port: int
    head: bytes | None
    """What is sent on to the host first; None for a tunnel."""


_METHOD = re.compile(rb"[A-Z]{1,20}")
_TARGET = re.compile(rb"http://([^/?#\x00-\x20\x7f-\xff]+)([/?][\x21-\x7e]*)?", re.IGNORECASE)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\x00-\x08\x0a-\x1f\x7f]*")
_NOT_PASSED_ON = frozenset({b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive"})


def parse_request(head: bytes) -> Asked:
    """The head of a request to a proxy, or Refused."""
    request_line, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = request_line.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or not _METHOD.fullmatch(words[0]):
        raise Refused(400, "This is not a request to a proxy.")
    if not all(_HEADER.fullmatch(header) for header in headers):
        raise Refused(400, "A header of the request is malformed.")
    method, target, version = words
    if method == b"CONNECT":
        return Asked(*parse_authority(target), None)
    url = _TARGET.fullmatch(target)
    if url is None:
        raise Refused(400, "Only CONNECT and requests for http:// addresses are served.")
    host, port = parse_authority(url[1], default_port=80)
    return Asked(host, port, _passed_on(method, url[2] or b"/", version, url[1].lower(), headers))


def _passed_on(method: bytes, path: bytes, version: bytes, authority: bytes, headers: Sequence[bytes]) -> bytes:
    """The request as the host is to see it: for the host that was checked, and the last one on its connection."""
    kept = [header for header in headers if header.partition(b":")[0].lower() not in _NOT_PASSED_ON]
    path = path if path.startswith(b"/") else b"/" + path
    lines = (b"%b %b %b" % (method, path, version), b"Host: " + authority, *kept, b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
