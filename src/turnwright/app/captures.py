"""The bytes of attempts on their way to the journal: all that failed, the good ones as configured (P15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from turnwright.schema.facts import AttemptEnded
from turnwright.schema.masking import Masker
from turnwright.schema.settings import TextDialect
from turnwright.schema.verdicts import GOOD_VERDICTS
from turnwright.wire.capture import Cassette, write_cassette


class AttemptCaptures:
    """Hears cassettes from the model and gives them to the recorder, one attempt at a time.

    Only the one that was kept last waits here: the loop records the end of an attempt before it begins another.
    """

    def __init__(
        self,
        keep: Literal["failures", "all", "off"],
        masker: Masker,
        tools: Mapping[str, Sequence[TextDialect]] = MappingProxyType({}),
    ) -> None:
        """`tools`: how calls are written as text, by the name of the route."""
        self._keep = keep
        self._masker = masker
        self._tools = tools
        self._waiting: dict[str, Callable[[], Cassette]] = {}

    def __call__(self, lineage: str, cassette: Callable[[], Cassette]) -> None:
        """`wire`'s side, at the end of an attempt."""
        self._waiting[lineage.partition("~")[0]] = cassette  # a compaction changes what follows the id

    def take(self, lineage: str, ended: AttemptEnded) -> bytes | None:
        """`session`'s side: the redacted cassette with its verdict, if this attempt's is to be kept."""
        waiting = self._waiting.pop(lineage, None)
        failed = ended.verdict not in GOOD_VERDICTS or ended.verdict == "empty"
        if waiting is None or self._keep == "off" or not (failed or self._keep == "all"):
            return None
        cassette = waiting()
        cassette.labels["verdict"] = ended.verdict
        if dialects := self._tools.get(ended.route):
            cassette.labels["tools"] = ",".join(dialects)
        return write_cassette(cassette, self._masker.encoded)
