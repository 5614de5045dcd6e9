"""A model that follows a script: a route like any other, for tests, demos and offline experiments.

One step of the script answers one attempt. The script may say what it expects to be sent; an unmet expectation, one
attempt too many or a step left over is a failure of the test and not of a provider, so it raises ScriptMismatch, an
AssertionError: the loop ends the turn as `internal-error` and lets it through. `docs/reference/scripted-model.md`
describes the YAML form.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import Any, Protocol, assert_never

import msgspec

from turnwright.providers.overflow import says_overflow, shows_overflow
from turnwright.providers.script import (
    FOREVER,
    Broken,
    Call,
    Expect,
    Fault,
    HttpError,
    Reported,
    Script,
    Stalled,
    Step,
    Tokens,
    WrongBody,
    checked,
)
from turnwright.schema.ids import CallId
from turnwright.schema.messages import AssistantMessage, Message, RuntimeMessage, ToolResults, UserMessage
from turnwright.schema.parts import (
    Closed,
    Done,
    Finish,
    Part,
    ReasoningPart,
    Refusal,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import NoRoute, Route, Tried
from turnwright.schema.verdicts import FinishClass

_CHARACTERS_PER_TOKEN = 4
DIGEST, WRITE_DIGEST = "digest", "write-digest"
"""The codes of a summary that stands for older messages, and of the request for one."""
_OWN_ID = re.compile(r"call_(\d+)_\d+")
_ARGUMENTS_CHUNK = 16


class ScriptMismatch(AssertionError):
    """The script and what the model was asked do not agree."""


class Sleeper(Protocol):
    async def sleep(self, delay_s: float) -> None: ...


class _Seen(msgspec.Struct, frozen=True):
    """What is known of a lineage, so that a step costs what is new in it and not what is old."""

    lineage: str
    messages: int = 0
    characters: int = 0
    replies: int = 0


class ScriptedModel:
    """Satisfies `kernel.ports.Model`. `script` is a Script, a list of steps, or a function of the prompt."""

    def __init__(
        self, script: Script | Sequence[Step] | Callable[[Prompt], Step], *, clock: Sleeper | None = None
    ) -> None:
        self._function: Callable[[Prompt], Step] | None = None
        if callable(script):
            self._function, script = script, Script(steps=[])
        elif not isinstance(script, Script):
            script = checked(Script(steps=list(script)), "script")
        self._script = script
        self._clock = clock
        self._ends = list(accumulate(step.times for step in script.steps))
        self._seen = _Seen("")
        self._here = ("", -1)
        """How many replies the history held at the last attempt; without any, also whose history it was."""
        self._position = 0
        self.verdicts: list[Tried] = []
        """What the loop made of each attempt, in order."""
        self.prompts: list[Prompt] = []
        """Every prompt as it was sent, in order; the history it came with may have grown since."""

    def route(self, tried: Sequence[Tried], *, tools: bool = True) -> Route | NoRoute:
        del tried, tools
        script = self._script
        return Route(
            name=script.route,
            model=script.model,
            price=script.price,
            window=script.window,
            max_output=script.max_output,
        )

    def judged(self, tried: Tried) -> Sequence[str]:
        self.verdicts.append(tried)
        return ()

    def prefer(self, route: str) -> None:
        """There is one route."""

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        """Plays the next step. Raises ScriptMismatch where the script and the prompt do not agree."""
        self._look_at(prompt)
        number, step = self._take(prompt)
        self.prompts.append(msgspec.structs.replace(prompt, messages=tuple(prompt.messages)))
        if step.expect and (unmet := list(_unmet(step.expect, prompt))):
            raise ScriptMismatch(f"Step {number} of the script expected {'; and '.join(unmet)}.")
        await self._sleep(step.delay_s)
        if isinstance(step.fault, HttpError | WrongBody):
            yield _failed_at_once(step.fault)
            return
        async with aclosing(self._stream(step, number, route, prompt)) as stream:
            async for parts in stream:
                yield parts

    def assert_complete(self) -> None:
        """Every step was played (a step that repeats forever, at least once)."""
        if self._function is not None:
            return
        done = self._position
        for number, (step, end) in enumerate(zip(self._script.steps, self._ends, strict=True), 1):
            wanted = end if step.repeat != "forever" else end - FOREVER + 1
            if done < wanted:
                raise ScriptMismatch(
                    f"The script was left at step {number} of {len(self._script.steps)} ({_title(step)}), "
                    f"after {done} attempts."
                )

    def _look_at(self, prompt: Prompt) -> None:
        seen = self._seen
        if seen.lineage != prompt.lineage or seen.messages > len(prompt.messages):
            seen = _Seen(prompt.lineage)
        new = prompt.messages[seen.messages :]
        self._seen = _Seen(
            prompt.lineage,
            len(prompt.messages),
            seen.characters + sum(map(_characters, new)),
            seen.replies + sum(isinstance(message, AssistantMessage) for message in new),
        )

    def _take(self, prompt: Prompt) -> tuple[int, Step]:
        if self._function is not None:
            self._position += 1
            return self._position, self._function(prompt)
        if self._script.digest is not None and _asks_for_digest(prompt.messages):
            return self._position, Step(text=self._script.digest, chunk="whole")
        here = (self._seen.lineage if not self._seen.replies else "", self._seen.replies)
        if self._script.follow == "history" and here != self._here:
            self._here = here
            after = self._after_digest(prompt.messages)
            self._position = self._after_replies(self._seen.replies) if after is None else after
        for number, (step, end) in enumerate(zip(self._script.steps, self._ends, strict=True), 1):
            if self._position < end:
                self._position += 1
                return number, step
        raise ScriptMismatch(
            f"The script has {len(self._script.steps)} steps, which answer {self._position} attempts, and was called "
            f"once more; the last message was {_short(_last_words(prompt.messages))}."
        )

    def _after_replies(self, replies: int) -> int:
        """The position right behind that many replies: 0 for none."""
        position = 0
        for step in self._script.steps:
            if replies <= 0:
                break
            if step.replies:
                position, replies = position + min(step.times, replies), replies - step.times
            else:
                position += step.times
        if replies > 0:
            raise ScriptMismatch(
                f"The history holds {self._seen.replies} replies, more than the script can have given."
            )
        return position

    def _after_digest(self, messages: Sequence[Message]) -> int | None:
        """Where older replies are shown no longer, the ids of calls tell the place; None where all are shown."""
        if not any(isinstance(message, RuntimeMessage) and message.code == DIGEST for message in messages):
            return None
        since = 0
        for message in reversed(messages):
            if isinstance(message, AssistantMessage):
                if message.calls:
                    return self._ends_at(message.calls[0].id) + since
                since += 1
        return since

    def _ends_at(self, call_id: CallId) -> int:
        """The position right behind the reply that made this call."""
        found = _OWN_ID.fullmatch(call_id)
        if found:
            return int(found[1])
        for step, end in zip(self._script.steps, self._ends, strict=True):
            if any(call.id == call_id for call in step.calls):
                return end
        raise ScriptMismatch(f"The script has no call with the id {call_id!r}, after which it should go on.")

    async def _stream(
        self, step: Step, number: int, route: Route, prompt: Prompt
    ) -> AsyncGenerator[Sequence[Part], None]:
        fault = step.fault
        cut = fault.after if fault is not None and not isinstance(fault, HttpError | WrongBody) else None
        told = _told(step, prompt.messages)
        yield [Start(model=route.model, response_id=f"scripted-{number}")]
        for sent, delta in enumerate(_deltas(told, f"call_{self._position}")):
            if sent == cut:
                break
            # Others must be able to run (and to cancel us) between deltas, as they can with a real stream.
            await (self._sleep(step.gap_s) if sent else asyncio.sleep(0))
            yield [delta]
        overflow = False
        match fault:
            case None:
                usage, finish = _usage(told, self._seen, prompt), _finish(told)
                overflow = shows_overflow(usage, route.window, finish.finish)
                yield [*([UsagePart(usage=usage, reported=usage)] if usage else []), finish, Done()]
            case Reported():
                error = StreamError(kind=fault.kind, message=fault.message, status=200, code=fault.code)
                overflow = says_overflow(error)
                yield [error]
            case Stalled() if fault.wait_s == "forever":
                await asyncio.Event().wait()
            case Stalled():
                await self._sleep(float(fault.wait_s))
            case _:
                pass
        closed = _closed(fault, len(told.text) + len(told.reasoning))
        yield [msgspec.structs.replace(closed, overflow=overflow)]

    async def _sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
        elif self._clock is None:
            raise TypeError("A script with delays needs a clock: ScriptedModel(script, clock=...).")
        else:
            await self._clock.sleep(delay_s)


def _asks_for_digest(messages: Sequence[Message]) -> bool:
    last = messages[-1] if messages else None
    return isinstance(last, RuntimeMessage) and last.code == WRITE_DIGEST


def _deltas(step: Step, prefix: str) -> Iterator[Part]:
    for piece in pieces_of(step.reasoning, step.chunk):
        yield ReasoningPart(piece)
    if step.signature:
        yield ReasoningPart(signature=step.signature)
    for piece in pieces_of(step.text, step.chunk):
        yield Text(piece)
    for piece in pieces_of(step.refusal, step.chunk):
        yield Refusal(piece)
    for index, call in enumerate(step.calls):
        identity = call.id if call.id is not None else f"{prefix}_{index}"
        yield ToolCallStart(index=index, id=identity, name=call.name)
        size = step.chunk if isinstance(step.chunk, int) else _ARGUMENTS_CHUNK
        for piece in pieces_of(_arguments(call), "whole" if step.chunk == "whole" else size):
            yield ToolCallArguments(fragment=piece, index=index, id=identity)
        yield ToolCallEnd(index=index, id=identity)


def pieces_of(text: str, chunk: int | str) -> list[str]:
    match chunk:
        case int():
            return [text[start : start + chunk] for start in range(0, len(text), chunk)]
        case "lines":
            return text.splitlines(keepends=True)
        case "words":
            words = text.split(" ")
            return [piece for piece in (*(f"{word} " for word in words[:-1]), words[-1]) if piece]
        case _:
            return [text] if text else []


def _arguments(call: Call) -> str:
    return call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()


def _usage(step: Step, seen: _Seen, prompt: Prompt) -> Usage | None:
    match step.usage:
        case "none":
            return None
        case Tokens() as given:
            return Usage(**{name: getattr(given, name) for name in Tokens.__struct_fields__})
        case None:
            system = sum(len(section.text) for section in prompt.system)
            written = len(step.text) + len(step.refusal) + sum(len(_arguments(call)) for call in step.calls)
            return Usage(
                input=_tokens(system + seen.characters),
                output=_tokens(written + len(step.reasoning)),
                reasoning=_tokens(len(step.reasoning)) if step.reasoning else None,
            )
        case _:
            assert_never(step.usage)


def _tokens(characters: int) -> int:
    return max(1, -(-characters // _CHARACTERS_PER_TOKEN))


def _finish(step: Step) -> Finish:
    finish: FinishClass = step.finish or ("tool_calls" if step.calls else "stop")
    return Finish(raw=finish, finish=finish)


def _failed_at_once(fault: HttpError | WrongBody) -> list[Part]:
    match fault:
        case HttpError():
            error = StreamError(kind=fault.kind, message=fault.message, status=fault.status, code=fault.code)
            closed = Closed(how="http_error", status=fault.status, retry_after_s=fault.retry_after_s)
            return [error, msgspec.structs.replace(closed, overflow=says_overflow(error))]
        case WrongBody():
            return [Closed(how=fault.how, status=fault.status, excerpt=fault.excerpt, bytes_in=len(fault.excerpt))]


def _closed(fault: Fault | None, bytes_in: int) -> Closed:
    match fault:
        case Stalled():
            return Closed(how="stall", status=200, stall=fault.reason, bytes_in=bytes_in)
        case Broken():
            return Closed(how="transport", status=200, detail=fault.detail, bytes_in=bytes_in)
        case _:
            return Closed(how="eof", status=200, bytes_in=bytes_in)


def _characters(message: Message) -> int:
    match message:
        case UserMessage(text=text) | RuntimeMessage(text=text):
            return len(text)
        case AssistantMessage(text=text, calls=calls):
            return len(text) + sum(len(call.arguments) for call in calls)
        case ToolResults(results=results):
            return sum(len(result.output) for result in results)


def _last_user(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")


def _last_runtime(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, RuntimeMessage)), "")


def _last_results(messages: Sequence[Message]) -> list[str]:
    found = next((message for message in reversed(messages) if isinstance(message, ToolResults)), None)
    return [result.output for result in found.results] if found else []


def _last_words(messages: Sequence[Message]) -> str:
    match messages[-1] if messages else None:
        case None:
            return ""
        case ToolResults(results=results):
            return "\n".join(result.output for result in results)
        case message:
            return message.text


def _unmet(expect: Expect, prompt: Prompt) -> Iterator[str]:
    results = _last_results(prompt.messages)
    contained = (
        (expect.user_contains, "the last user text", _last_user(prompt.messages)),
        (expect.runtime_contains, "the runtime's last words", _last_runtime(prompt.messages)),
        (expect.system_contains, "the system prompt", "\n".join(section.text for section in prompt.system)),
        (expect.result_contains, "the last tool results", "\n".join(results)),
    )
    for wanted, what, text in contained:
        if wanted is not None and wanted not in text:
            yield f"{what} to contain {wanted!r}, and it is {_short(text)}"
    wanted_results = [expect.result_is] if isinstance(expect.result_is, str) else expect.result_is
    if wanted_results is not None and wanted_results != results:
        yield f"the last tool results to be {wanted_results!r}, and they are {_short(repr(results))}"
    offered = [tool.name for tool in prompt.tools]
    if expect.tools is not None and sorted(expect.tools) != sorted(offered):
        yield f"exactly the tools {sorted(expect.tools)} to be offered, and {sorted(offered)} are"
    if missing := sorted(set(expect.tools_include or ()) - set(offered)):
        yield f"the tools {missing} to be offered, and only {sorted(offered)} are"
    if expect.messages is not None and expect.messages != len(prompt.messages):
        yield f"{expect.messages} messages, and there are {len(prompt.messages)}"
    if expect.temperature is not None and expect.temperature != prompt.temperature:
        yield f"temperature {expect.temperature}, and it is {prompt.temperature}"


def _short(text: str) -> str:
    return repr(text) if len(text) <= 400 else f"{text[:200]!r} ... {text[-200:]!r}"


def _title(step: Step) -> str:
    return _short((step.text or ", ".join(call.name for call in step.calls) or "no text")[:60])


def _told(step: Step, messages: Sequence[Message]) -> Step:
    """The step with `{{...}}` replaced by what is known only now."""
    text = _filled(step.text, messages)
    calls = [msgspec.structs.replace(call, arguments=_filled_in(call.arguments, messages)) for call in step.calls]
    return msgspec.structs.replace(step, text=text, calls=calls)


def _filled_in(value: Any, messages: Sequence[Message]) -> Any:
    match value:
        case str():
            return _filled(value, messages)
        case dict():
            return {key: _filled_in(inner, messages) for key, inner in value.items()}
        case list():
            return [_filled_in(inner, messages) for inner in value]
        case _:
            return value


def _filled(text: str, messages: Sequence[Message]) -> str:
    """`{{last_user}}`, `{{last_result}}`, or `{{last_result after MARKER}}`: the rest of the line behind the marker."""
    before, opened, rest = text.partition("{{")
    if not opened:
        return text
    inside, closed, behind = rest.partition("}}")
    name, _, marker = inside.strip().partition(" after ")
    if not closed or name not in ("last_user", "last_result"):
        return f"{before}{{{{{_filled(rest, messages)}"
    value = _last_user(messages) if name == "last_user" else "\n".join(_last_results(messages))
    if marker:
        _, found, value = value.partition(marker)
        if not found:
            raise ScriptMismatch(f"The script wants what stands behind {marker!r} in {name}, and it is not there.")
        value = value.split("\n", 1)[0].strip()
    return f"{before}{value}{_filled(behind, messages)}"
