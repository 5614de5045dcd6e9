"""Making room in a history: when, by which stages, and when not to try again (C3). What is decided is recorded; the
fold in `history` does the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from turnwright.kernel.compaction import (
    DIGEST_REQUEST,
    DIGEST_TOKENS,
    KEPT_SHARE,
    TARGET_SHARE,
    Cut,
    cut_for,
    kept_words,
    old_output,
    results_of,
    stubbed,
)
from turnwright.kernel.limits import Tally
from turnwright.kernel.scribe import Scribe
from turnwright.kernel.work import work_of
from turnwright.schema.facts import ContextCompacted, Note, TurnSoFar
from turnwright.schema.ids import CallId, StepId, TurnId
from turnwright.schema.limits import Compaction
from turnwright.schema.messages import RuntimeMessage
from turnwright.schema.modes import Course
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route
from turnwright.schema.tiers import Tiers
from turnwright.schema.verdicts import Effect, TaskClass

Why: TypeAlias = Literal["threshold", "overflow", "asked"]


class NoDigest(msgspec.Struct, frozen=True):
    """The model gave no summary."""

    why: str


AskForDigest: TypeAlias = Callable[[Prompt], Awaitable[str | NoDigest]]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where it happens: a step that is about to ask the model, or between two turns."""

    turn_id: TurnId | None
    step_id: StepId | None
    course: Course
    task_class: TaskClass
    tiers: Tiers | None
    reasoning: bool | None


class Compactor:
    def __init__(self, scribe: Scribe, rules: Compaction, effects: Callable[[], dict[str, Effect]]) -> None:
        self._scribe = scribe
        self._rules = rules
        self._effects = effects

    def due(self, route: Route) -> bool:
        """The window of the route is nearly full, and there is hope in trying."""
        history, rules = self._scribe.history, self._rules
        if route.window is None or rules.at_share >= 1:
            return False
        if history.estimate(route.name) < rules.at_share * route.window:
            return False
        since = history.steps_since_compaction
        return not self.given_up and (since is None or since > rules.apart_steps)

    @property
    def given_up(self) -> bool:
        """The breaker: trying again costs money and has not helped."""
        return self._scribe.history.compactions_failed >= self._rules.max_failures

    async def make_room(
        self, where: Place, prompt: Prompt, route: Route, why: Why, ask: AskForDigest
    ) -> ContextCompacted | str:
        """What was done to make the history smaller, or why it is not. Never raises for what a model does."""
        if self.given_up and why != "asked":
            return f"{self._rules.max_failures} compactions in a row made no room, so no further one was tried"
        history = self._scribe.history
        before = history.estimate(route.name)
        kept_chars = self._kept_tokens(route, before, why) * history.counts.chars_per_token(route.name)
        calls = old_output(history.messages, kept_chars)
        shorter = ContextCompacted(stubbed=calls)
        target = int(TARGET_SHARE * (route.window or before))
        if calls and why != "asked" and history.after(shorter).estimate(route.name) <= target:
            return self._compacted(where, route, why, before, shorter)
        cut = cut_for(history.messages, history.cuts, kept_chars)
        digest = (
            NoDigest("nothing but the newest part is left")
            if cut is None
            else await ask(self._digest_prompt(prompt, cut, calls, route, before, why))
        )
        if isinstance(digest, str) and cut is not None:
            return self._compacted(where, route, why, before, self._digested(cut, digest, calls, kept_chars))
        assert isinstance(digest, NoDigest), "there is a summary only where there is a cut"
        if cut is not None:
            self._failed(where, digest.why)
        if calls:
            return self._compacted(where, route, why, before, shorter)
        return f"there is nothing that could be left out: {digest.why}"

    def _kept_tokens(self, route: Route, before: int, why: Why) -> int:
        """Where the window is not known, it is no smaller than half of what was refused, or nobody will be helped."""
        share = TARGET_SHARE * before if route.window is None else KEPT_SHARE * route.window
        most = KEPT_SHARE * before if why == "asked" else share
        return min(self._rules.keep_tokens, int(most))

    def _digest_prompt(
        self, prompt: Prompt, cut: Cut, calls: tuple[CallId, ...], route: Route, before: int, why: Why
    ) -> Prompt:
        """Where it still fits: the very request that the step would have sent, and the question at its end, so that the
        provider has nearly all of it in its cache. Otherwise only what is to be condensed, without long output."""
        asked = RuntimeMessage(code="write-digest", text=DIGEST_REQUEST)
        limit = min(DIGEST_TOKENS, route.max_output or DIGEST_TOKENS, (route.window or DIGEST_TOKENS * 8) // 8)
        fits = why != "overflow" and (route.window is None or before + limit <= route.window)
        if fits:
            messages = [*prompt.messages, asked]
            return msgspec.structs.replace(prompt, messages=messages, max_output_tokens=limit)
        messages = [*stubbed(prompt.messages[: cut.index], frozenset(calls)), asked]
        return msgspec.structs.replace(
            prompt, lineage=f"{prompt.lineage}~digest", messages=messages, max_output_tokens=limit
        )

    def _digested(self, cut: Cut, digest: str, calls: tuple[CallId, ...], kept_chars: float) -> ContextCompacted:
        history = self._scribe.history
        gone = history.messages[: cut.index]
        left = {result.call_id for message in history.messages[cut.index :] for result in results_of(message)}
        return ContextCompacted(
            through_seq=cut.seq - 1,
            from_step=cut.step_id,
            digest=digest,
            kept=kept_words(gone, kept_chars),
            work=work_of(history.work, gone, self._effects()),
            stubbed=tuple(call for call in calls if call in left),
        )

    def _compacted(self, where: Place, route: Route, why: Why, before: int, fact: ContextCompacted) -> ContextCompacted:
        """What has come of it is known by doing it: to a copy, since facts are not changed afterwards."""
        history, tally = self._scribe.history, self._scribe.tally
        after = history.after(fact).estimate(route.name)
        helped = after < before and (route.window is None or after < self._rules.at_share * route.window)
        fact = msgspec.structs.replace(
            fact,
            turn_id=where.turn_id,
            step_id=where.step_id,
            why=why,
            helped=helped,
            tokens_before=before,
            tokens_after=after,
            turn=_so_far(tally, where) if where.turn_id else None,
        )
        self._scribe.note(fact)
        return fact

    def _failed(self, where: Place, why: str) -> None:
        self._scribe.note(
            Note(
                turn_id=where.turn_id,
                step_id=where.step_id,
                code="compaction-failed",
                text=f"the conversation could not be condensed: {why}",
            )
        )


def _so_far(tally: Tally, where: Place) -> TurnSoFar:
    ending = tally.wrapping_up
    return TurnSoFar(
        mode=tally.mode,
        course=where.course,
        mode_steps=tally.mode_steps,
        mode_told=tally.mode_told,
        task_class=where.task_class,
        tiers=where.tiers,
        reasoning=where.reasoning,
        tier=tally.tier.tier,
        tier_base=tally.tier.base,
        tiers_off=tally.tier.off,
        steps=tally.steps,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        denials=tally.denials,
        warned=tuple(sorted(tally.warned)),
        text=tally.text,
        ending=ending.reason if ending else None,
        ending_why=ending.why if ending else "",
    )
