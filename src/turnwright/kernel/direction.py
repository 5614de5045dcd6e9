"""Where a turn is heading: the mode it works in and the tier that answers it. Both are settled between two steps, and
each change is a fact before anything follows from it."""

from __future__ import annotations

import msgspec

from turnwright.kernel.modes import change_of, told_of
from turnwright.kernel.ports import Ports
from turnwright.kernel.sample import Sampler
from turnwright.kernel.scribe import Scribe
from turnwright.kernel.tiers import first_notes, next_note
from turnwright.schema.facts import Note
from turnwright.schema.ids import TurnId
from turnwright.schema.modes import Course
from turnwright.schema.tiers import Tier, Tiers


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is asked, and what it may go through for it."""

    turn_id: TurnId
    text: str
    course: Course
    tiers: Tiers | None
    carried: Tier | None
    """The tier to which the turn had come that this one carries on."""
    route: str
    """Of the conversation's last attempt."""


class Direction:
    def __init__(self, request: Request, ports: Ports, scribe: Scribe, sampler: Sampler) -> None:
        self._request = request
        self._ports = ports
        self._scribe = scribe
        self._sampler = sampler

    @property
    def next_mode(self) -> str:
        return self._request.course.after(self._scribe.tally.mode)

    def choose_tier(self) -> None:
        """By what is asked; in a turn that is carried on, the one it had come to."""
        request, standing = self._request, self._scribe.tally.tier
        if request.tiers is None:
            return
        notes = first_notes(request.tiers, standing, request.text, request.carried, request.route, request.turn_id)
        for note in notes:
            self._scribe.note(note)
        self._go_to_tier(request.tiers, notes[0].text if notes else "as before")

    def before_step(self) -> None:
        self._go_on_to_next_mode()
        self._move_between_tiers()

    def _go_on_to_next_mode(self) -> None:
        """The tools of the next step are those of its mode. Where the system prompt does not say what a mode is, the
        conversation does, once."""
        request, tally = self._request, self._scribe.tally
        if (change := change_of(request.course, tally, request.turn_id)) is not None:
            self._scribe.note(change)
        mode = tally.mode
        if mode != tally.mode_told and (text := self._ports.context.apart(self._ports.tools.offered(mode), mode)):
            self._scribe.note(
                Note(
                    turn_id=request.turn_id,
                    code="mode-told",
                    text=f"told what {mode} mode is",
                    said=told_of(mode, text),
                    data={"mode": mode},
                )
            )

    def _move_between_tiers(self) -> None:
        """By how the run goes."""
        request, tally = self._request, self._scribe.tally
        if request.tiers is None:
            return
        route = self._sampler.route if tally.steps else ""
        if (note := next_note(request.tiers, tally.tier, route, request.turn_id)) is not None:
            self._scribe.note(note)
            self._go_to_tier(request.tiers, note.text)

    def _go_to_tier(self, tiers: Tiers, why: str) -> None:
        if (tier := self._scribe.tally.tier.tier) is not None:
            self._ports.model.prefer(tiers.route(tier))
            self._sampler.sent_there = f"tier {why}"
