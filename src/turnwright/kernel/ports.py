"""What the turn loop needs from the world, in its own words. Adapters satisfy these by shape, without import."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from turnwright.kernel.spending import Charge as Charge
from turnwright.kernel.spending import Standing as Standing
from turnwright.schema.facts import Fact, SubagentEnded, SubagentStarted, Unknown
from turnwright.schema.ids import CallId, Seq, StepId, TurnId
from turnwright.schema.live import LiveEvent
from turnwright.schema.messages import Message, RuntimeMessage
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.routes import NoRoute as NoRoute
from turnwright.schema.routes import Price as Price
from turnwright.schema.routes import Route as Route
from turnwright.schema.routes import Tried as Tried
from turnwright.schema.tools import Asks as Asks
from turnwright.schema.tools import Delegation as Delegation
from turnwright.schema.tools import Question as Question
from turnwright.schema.tools import Ready as Ready
from turnwright.schema.tools import ToolOutcome as ToolOutcome
from turnwright.schema.tools import Unfit as Unfit
from turnwright.schema.verdicts import StopReason

ABANDON_AFTER_S = 0.7
"""A cancelled tool gets this long to stop what it started. Cancel must return within a second (K10)."""


class Record(Protocol):
    """Makes facts durable, all or none, in order. When it returns, they are; when it raises JournalError, stop."""

    async def __call__(self, *facts: Fact) -> Sequence[Seq]: ...


Emit: TypeAlias = Callable[[LiveEvent], None]
"""Live events go out without waiting: a slow reader can never hold the turn."""


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> TimerHandle: ...

    async def sleep(self, delay_s: float) -> None: ...


class Ids(Protocol):
    def new(self, kind: Literal["turn", "call", "approval", "inbox", "conversation"]) -> str: ...


class Model(Protocol):
    """One attempt at a time. The loop owns retry and budget; the model owns routes and their health."""

    def route(self, tried: Sequence[Tried], *, tools: bool = True) -> Route | NoRoute:
        """Where the next attempt of this step goes, given what was tried in it and whether tools are offered."""
        ...

    def judged(self, tried: Tried) -> Sequence[str]:
        """What became of an attempt, good or bad: health is kept by it. Answers with alerts, for the record."""
        ...

    def prefer(self, route: str) -> None:
        """Begin with this route, if it is still there: the one that the conversation was switched to."""
        ...

    def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        """Parts in batches as bytes come. Always ends with `Closed`; never raises for what a provider does.

        Closing the iterator hangs up at once.
        """
        ...


class ToolContext(Protocol):
    """What a running tool may use of its surroundings."""

    turn_id: TurnId
    step_id: StepId
    call_id: CallId

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Show something while the tool runs (a live event)."""
        ...

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Ask the user. None when nobody can answer, which is a denial."""
        ...

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        """Have a subagent do it. Raises ToolFailure where none may be sent."""
        ...


class Tools(Protocol):
    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        """The tools of a mode, in a stable order. The same tuple while nothing changes."""
        ...

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        """Parse, validate, and say whether it may run; `arguments` is the text of a JSON object."""
        ...

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Never raises for a tool's failure. Cancellation must stop what was started within half a second."""
        ...


class Conversation(Protocol):
    """History as context sees it: messages that only grow under one lineage."""

    lineage: str
    messages: list[Message]


class Context(Protocol):
    async def prompt(self, history: Conversation, tools: tuple[ToolSpec, ...], mode: str) -> Prompt:
        """What the model is to see: system sections, history, tools."""
        ...

    def apart(self, tools: tuple[ToolSpec, ...], mode: str) -> str:
        """What is said of a mode in the conversation, where it begins, and not in the system prompt; else empty."""
        ...

    def segments(self, prompt: Prompt) -> dict[str, str]:
        """Hashes of the stable segments of a prompt, cheap to ask every step."""
        ...

    def prefix_chars(self, prompt: Prompt) -> int:
        """How long they are together, as cheap to ask."""
        ...


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user that was admitted while a turn ran."""

    inbox_id: str
    text: str


class Inbox(Protocol):
    def take(self) -> Sequence[Letter]:
        """Everything to be delivered at the next tool boundary; taken letters are not given again."""
        ...


class Continue(msgspec.Struct, frozen=True):
    """Carry on."""


class _Tripped(msgspec.Struct, frozen=True, kw_only=True):
    guard: str
    why: str
    evidence: Mapping[str, str | int | float | bool | None] = {}


class Warn(_Tripped, frozen=True, kw_only=True):
    """The model is told, if there is something to say to it; nothing else happens."""

    said: RuntimeMessage | None = None


class Block(_Tripped, frozen=True, kw_only=True):
    """This call is not executed; the model reads why."""

    call_id: CallId


class Truncate(_Tripped, frozen=True, kw_only=True):
    """These calls of a reply are not executed; the others are."""

    call_ids: tuple[CallId, ...]


class Nudge(_Tripped, frozen=True, kw_only=True):
    """The model is asked once more, instead of being taken at its word."""

    said: RuntimeMessage
    delay_s: float = 0.0
    warmer: float = 0.0
    """How far above its usual temperature."""
    warmer_if_thinking: float = 0.0
    """The same for a model that thinks before it answers."""


class ForceAnswer(_Tripped, frozen=True, kw_only=True):
    """One last step without tools."""

    said: RuntimeMessage


class Halt(_Tripped, frozen=True, kw_only=True):
    """The turn ends now."""

    reason: StopReason = "guard-stop"
    text: str = ""
    """What the user is told in place of an answer, in our own name; empty where the model's last words stand."""


LOOKED = "looked"
"""The code of the note that says what a guard wanted to know."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Not a verdict yet: before this call runs, the guard must know what these files of the workspace hold. What was
    found becomes a fact, so that the verdict is made from facts alone."""

    call_id: CallId
    paths: tuple[str, ...]
    """The first that exists is read."""
    digest: Callable[[str], dict[str, str | int | float | bool | None]]
    """What of its text is worth keeping."""


Judgement: TypeAlias = Look | Continue | Warn | Block | Truncate | Nudge | ForceAnswer | Halt


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen in a reply that had better be ended."""

    segment: str
    why: str


class Watch(Protocol):
    """Looks at one reply while it comes, for what must be ended and cannot be waited for."""

    def see(self, event: LiveEvent) -> Repeated | None: ...

    def end(self) -> Repeated | None:
        """The reply is whole."""
        ...


class Guards(Protocol):
    """Folds over facts with verdicts, as one. A guard that raises ends the turn: it never fails open."""

    def judge(self, fact: Fact) -> Sequence[Judgement]: ...

    def watch(self) -> Watch | None:
        """For one attempt. None where no guard wants to look on."""
        ...

    def recall(self, fact: Fact | Unknown) -> None:
        """A fact from the journal, in order, before a turn is carried on: what was judged and is already written down
        is not said again."""
        ...


class Refused(msgspec.Struct, frozen=True):
    """The budget has no room for a call, and will have none."""

    reason: Literal["token-budget", "cost-budget"]
    why: str


LookInto: TypeAlias = Callable[[str], Awaitable[str | None]]
"""A text file of the workspace, None when there is no such file; OSError or MachineError where it cannot be told."""


class Reservation(Protocol):
    """A share of the budget that a call in flight holds."""

    @property
    def tokens(self) -> int: ...

    @property
    def cost_usd(self) -> float | None:
        """None where the price is unknown."""
        ...

    def settle(self, charge: Charge) -> None:
        """Give back the share, and count what was spent. Twice is once."""
        ...


class Ledger(Protocol):
    """The budget of a whole tree of conversations (K6)."""

    async def reserve(self, route: Route, input_tokens: int, output_tokens: int) -> Reservation | Refused:
        """Waits while only the calls of others, which are in flight, stand in the way."""
        ...

    def standings(self) -> Sequence[Standing]:
        """The conversation's own budget first, then those that it shares, up to the root of the tree."""
        ...


class Cancel(Protocol):
    """Someone wants the turn to stop."""

    @property
    def requested(self) -> bool: ...

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once, when it is requested; the result unsubscribes."""
        ...


class Saved(msgspec.Struct, frozen=True):
    """The workspace as it was, under this name."""

    tree: str
    files: int


class Unsaved(msgspec.Struct, frozen=True):
    """It is not known how it was."""

    why: str


class Versions(Protocol):
    """The workspace before and after whatever changes it, saved beside everything else (X7)."""

    def begin(self) -> None:
        """Save what is there now. Returns at once."""
        ...

    async def settled(self) -> Saved | Unsaved | None:
        """What became of the save that was begun; None where none was. Waits for it, within bounds."""
        ...


Ask: TypeAlias = Callable[[Question], Awaitable[str | None]]
"""Puts a question to the user. None when nobody can answer."""


class Subagent(Protocol):
    """One that is ready to go."""

    @property
    def started(self) -> SubagentStarted: ...

    @property
    def ended(self) -> SubagentEnded | None:
        """What became of it, as soon as something has: also where it was cancelled."""
        ...

    async def run(self) -> SubagentEnded:
        """To its end. Cancelled, it stops within the time that a tool has for that."""
        ...


class Subagents(Protocol):
    """Conversations that this one may send out."""

    def place(self, wanted: Delegation, context: ToolContext) -> AbstractAsyncContextManager[Subagent]:
        """Waits until there is room for it. Nothing has happened yet when it is entered. Raises ToolFailure where none
        may be sent, or not in this way."""
        ...


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `run_turn` is handed besides the turn itself and `record`."""

    model: Model
    tools: Tools
    guards: Guards
    context: Context
    inbox: Inbox
    clock: Clock
    ids: Ids
    cancel: Cancel
    ledger: Ledger
    ask: Ask
    emit: Emit
    look_into: LookInto | None = None
    """None where there is no workspace; guards then learn nothing of it."""
    versions: Versions | None = None
    """None where nothing is saved, and nothing can be taken back."""
    subagents: Subagents | None = None
    """None where none may be sent."""
    abandon_after_s: float = ABANDON_AFTER_S
    jitter: Callable[[], float]
    """Between -1 and 1: spreads the retries of many conversations."""
