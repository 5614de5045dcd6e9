"""What lies between bytes and parts: the wire cuts a body into frames, a codec reads them."""

from __future__ import annotations

import msgspec


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One unit of a reply: the data of an SSE event, a line of NDJSON, an element of an array, or a whole JSON body."""

    data: bytes
    """JSON text, undecoded: a codec decodes it once, straight into the fields it needs. `[DONE]` comes as it is."""
    event: str = ""
    """The name of the SSE event, where it had one."""
