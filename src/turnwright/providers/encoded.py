"""Messages are encoded once (C2): a step's request costs what is new in it, whatever lies behind."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from turnwright.providers.codec import Codec, Quirks
from turnwright.schema.messages import Message
from turnwright.schema.prompt import Prompt

LINEAGES_MAX = 256
BYTES_MAX = 128 * 1024 * 1024


class _Encoded(msgspec.Struct):
    count: int
    last: Message | None
    """The last message that is in `joined`: the sign that the prompt has only grown."""
    joined: bytearray
    quirks: Quirks
    size: int = 0
    """How much of `joined` are messages; what is behind them was the tail of the last prompt."""


class EncodedMessages:
    """What was already encoded, by lineage, route and dialect; the least recently used goes first."""

    def __init__(self, lineages_max: int = LINEAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._lineages_max = lineages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str, str], _Encoded] = OrderedDict()

    def of(self, prompt: Prompt, codec: Codec, route: str, quirks: Quirks) -> bytearray:
        """All messages of the prompt in this dialect, joined by commas. It is the cache's own buffer, which grows with
        the next call: copying the whole history at every step is what is avoided here."""
        name = (prompt.lineage, route, codec.dialect)
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._bytes -= len(kept.joined)
        if kept is None or not _has_grown(kept, prompt, quirks):
            kept = _Encoded(0, None, bytearray(), quirks)
        messages, joined = prompt.messages, kept.joined
        del joined[kept.size :]
        for index in range(kept.count, len(messages)):
            _join(joined, codec.encode_message(messages[index], route, quirks))
        kept.count, kept.size = len(messages), len(joined)
        for message in prompt.tail:
            _join(joined, codec.encode_message(message, route, quirks))
        kept.last = messages[-1] if messages else None
        self._kept[name] = kept
        self._bytes += len(joined)
        while len(self._kept) > 1 and (len(self._kept) > self._lineages_max or self._bytes > self._bytes_max):
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.joined)
        return joined


def _join(joined: bytearray, fresh: bytes) -> None:
    if fresh:
        joined += b"," + fresh if joined else fresh


def _has_grown(kept: _Encoded, prompt: Prompt, quirks: Quirks) -> bool:
    """A lineage promises it; a prompt that breaks the promise is encoded anew rather than sent wrong."""
    if len(prompt.messages) < kept.count or kept.quirks != quirks:
        return False
    if kept.count == 0:
        return True
    last = prompt.messages[kept.count - 1]
    return last is kept.last or last == kept.last
