"""The fault table: every misbehaviour on the wire × dialect × streaming × tools, with what must come of it (P19)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from turnwright.providers.codec import Dialect
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.said import Said
from turnwright.testing.fault_table import calls, cuts, endings, framing, gate, in_band, stalls, statuses
from turnwright.testing.fault_table.case import FINAL, Behaviour, Fault, FaultCase, Setting, recovered

FAULTS: tuple[Fault, ...] = (
    *calls.FAULTS,
    *gate.FAULTS,
    *statuses.FAULTS,
    *in_band.FAULTS,
    *cuts.FAULTS,
    *stalls.FAULTS,
    *framing.FAULTS,
    *endings.FAULTS,
)


@cache
def cases() -> tuple[FaultCase, ...]:
    """The whole table. A fault after which the same request is sent again has two rows: one where the server never
    recovers, and one (`.once`) where the second try is answered."""
    return tuple(row for fault in FAULTS for setting in settings() for row in _rows(fault, setting))


def settings() -> Iterator[Setting]:
    dialects: tuple[Dialect, ...] = tuple(SPEAKERS)
    for dialect, streaming, tools in product(dialects, (True, False), (False, True)):
        yield Setting(dialect=dialect, streaming=streaming, tools=tools)


def _rows(fault: Fault, setting: Setting) -> Iterator[FaultCase]:
    behaviour = fault.make(setting)
    if behaviour is None:
        return
    expected = behaviour.expected
    if expected.ends == "stop":
        yield _row(fault, setting, behaviour, once=False)
    else:
        # Where no answer comes, the tools make a difference only to a reply that had begun or that comes later.
        if expected.text or not setting.tools:
            yield _row(fault, setting, behaviour, once=False)
        if expected.retryable:
            recovery = Behaviour(behaviour.exchange, recovered(setting, expected))
            yield _row(fault, setting, recovery, once=True)


def _row(fault: Fault, setting: Setting, behaviour: Behaviour, *, once: bool) -> FaultCase:
    exchanges = [behaviour.exchange]
    if once:
        exchanges.append(setting.reply())
    answered = behaviour.expected.ends == "stop" and behaviour.for_documents is None
    if answered and behaviour.expected.requests > len(exchanges):
        exchanges.append(setting.reply(Said(text=(FINAL,))))
    form = "stream" if setting.streaming else "document"
    words = "tools" if setting.tools else "text"
    name = f"{fault.name}.{setting.dialect}.{form}.{words}"
    return FaultCase(
        id=f"{name}.once" if once else name,
        fault=fault.name,
        about=fault.about,
        dialect=setting.dialect,
        streaming=setting.streaming,
        tools=setting.tools,
        once=once,
        expected=behaviour.expected,
        exchanges=tuple(exchanges),
        for_documents=behaviour.for_documents,
    )
