"""Two conversations step by step: what they share, where they part, and what each of them took (V). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    ConversationOpened,
    ModelReplied,
    Recorded,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import CallId, ConversationId, Seq
from turnwright.views.text import Line, Span, line, one_line, plural

SHOWN_CHARS = 70
ALIGNED_MAX = 2_000
"""Of longer conversations steps are put side by side by their number."""


class CallGlance(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    arguments: str
    outcome: str = ""
    output: str = ""


class StepGlance(msgspec.Struct, frozen=True, kw_only=True):
    """One step, as far as it can be compared with another's."""

    seq: Seq
    turn: int
    step: int
    asked: str = ""
    """What the user said, where the step opens a turn."""
    verdicts: tuple[str, ...] = ()
    text: str = ""
    calls: tuple[CallGlance, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None

    @property
    def said(self) -> tuple[object, ...]:
        """What makes two steps the same: neither times nor counts."""
        return self.asked, self.verdicts, self.text, self.calls


class Side(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    model: str
    turns: int
    steps: int
    attempts: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    """None where the cost of an attempt is unknown."""
    tools: dict[str, int]
    verdicts: dict[str, int]
    reason: str
    """Why the last turn ended; empty where it did not."""
    text: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    a: StepGlance | None = None
    b: StepGlance | None = None
    same: bool = False


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference: of which step, in what, and what each says."""

    turn: int
    step: int
    field: str
    a: str
    b: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    a: Side
    b: Side
    shared_facts: Seq
    """Up to here both are one: a fork and where it came from."""
    same_steps: int
    """At the beginning; they are left out of `steps`."""
    first: First | None
    steps: tuple[Pair, ...]


def compared(a: Sequence[Recorded], b: Sequence[Recorded]) -> Comparison:
    """Both from their first fact."""
    ours, theirs = list(steps_of(a)), list(steps_of(b))
    same = _length_of_same(ours, theirs)
    pairs = tuple(_aligned(ours[same:], theirs[same:]))
    one, other = side_of(a, ours), side_of(b, theirs)
    return Comparison(
        a=one,
        b=other,
        shared_facts=_shared(a, b),
        same_steps=same,
        first=_first(pairs, one, other),
        steps=pairs,
    )


class _Open:
    """A step that is being read."""

    def __init__(self, seq: Seq, turn: int, step: int, asked: str) -> None:
        self.seq, self.turn, self.step, self.asked = seq, turn, step, asked
        self.verdicts: list[str] = []
        self.text = ""
        self.calls: dict[CallId, CallGlance] = {}
        self.tokens_in = self.tokens_out = 0
        self.cost_usd: float | None = 0.0

    def closed(self) -> StepGlance:
        return StepGlance(
            seq=self.seq,
            turn=self.turn,
            step=self.step,
            asked=self.asked,
            verdicts=tuple(self.verdicts),
            text=self.text,
            calls=tuple(self.calls.values()),
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_usd=self.cost_usd,
        )


def steps_of(facts: Iterable[Recorded]) -> Iterator[StepGlance]:
    turn, step, asked = 0, 0, ""
    at: _Open | None = None
    for each in facts:
        match each.fact:
            case TurnStarted(text=text):
                turn, step, asked = turn + 1, 0, text
            case StepStarted():
                if at is not None:
                    yield at.closed()
                step += 1
                at, asked = _Open(each.seq, turn, step, asked), ""
            case AttemptEnded() as ended if at is not None:
                at.verdicts.append(ended.verdict)
                if ended.usage is not None:
                    at.tokens_in += ended.usage.input or 0
                    at.tokens_out += ended.usage.output or 0
                at.cost_usd = None if at.cost_usd is None or ended.cost_usd is None else at.cost_usd + ended.cost_usd
            case ModelReplied(message=message) if at is not None:
                at.text = message.text
                at.calls = {call.id: CallGlance(name=call.name, arguments=call.arguments) for call in message.calls}
            case ToolStarted(call_id=str(call_id), name=name, arguments=arguments) if at is not None:
                at.calls.setdefault(call_id, CallGlance(name=name, arguments=arguments))
            case ToolEnded(call_id=str(call_id)) as ended_call if at is not None and call_id in at.calls:
                output = ended_call.output_blob.sha256 if ended_call.output_blob else ended_call.output
                at.calls[call_id] = msgspec.structs.replace(
                    at.calls[call_id], outcome=ended_call.outcome, output=output
                )
            case _:
                pass
    if at is not None:
        yield at.closed()


def side_of(facts: Sequence[Recorded], steps: Sequence[StepGlance]) -> Side:
    opened = [each.fact for each in facts if isinstance(each.fact, ConversationOpened)]
    ends = [each.fact for each in facts if isinstance(each.fact, TurnEnded)]
    turns = [each.seq for each in facts if isinstance(each.fact, TurnStarted)]
    running = bool(turns) and not any(isinstance(each.fact, TurnEnded) for each in facts if each.seq > turns[-1])
    costs = [step.cost_usd for step in steps]
    return Side(
        conversation_id=facts[-1].conversation_id,
        model=opened[-1].model if opened else "",
        turns=len(turns),
        steps=len(steps),
        attempts=sum(len(step.verdicts) for step in steps),
        tokens_in=sum(step.tokens_in for step in steps),
        tokens_out=sum(step.tokens_out for step in steps),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
        tools=dict(sorted(Counter(call.name for step in steps for call in step.calls).items())),
        verdicts=dict(sorted(Counter(verdict for step in steps for verdict in step.verdicts).items())),
        reason=ends[-1].reason if ends and not running else "",
        text=ends[-1].text if ends else "",
    )


def _shared(a: Sequence[Recorded], b: Sequence[Recorded]) -> Seq:
    """Facts with the same bytes, from the first on."""
    shared = 0
    for one, other in zip(a, b, strict=False):
        if one.body != other.body or isinstance(one.fact, Unknown):
            break
        shared = one.seq
    return shared


def _length_of_same(a: Sequence[StepGlance], b: Sequence[StepGlance]) -> int:
    return next(
        (n for n, (one, other) in enumerate(zip(a, b, strict=False)) if one.said != other.said), min(len(a), len(b))
    )


def _aligned(a: Sequence[StepGlance], b: Sequence[StepGlance]) -> Iterator[Pair]:
    """Steps that say the same stand side by side, and so do those between them."""
    if max(len(a), len(b)) > ALIGNED_MAX:
        yield from _side_by_side(a, b)
        return
    matcher = SequenceMatcher(None, [step.said for step in a], [step.said for step in b], autojunk=False)
    for what, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if what == "equal":
            for one, other in zip(a[a_from:a_to], b[b_from:b_to], strict=True):
                yield Pair(a=one, b=other, same=True)
        else:
            yield from _side_by_side(a[a_from:a_to], b[b_from:b_to])


def _side_by_side(a: Sequence[StepGlance], b: Sequence[StepGlance]) -> Iterator[Pair]:
    for n in range(max(len(a), len(b))):
        one, other = a[n] if n < len(a) else None, b[n] if n < len(b) else None
        yield Pair(a=one, b=other, same=one is not None and other is not None and one.said == other.said)


def _first(pairs: Sequence[Pair], a: Side, b: Side) -> First | None:
    pair = next((pair for pair in pairs if not pair.same), None)
    if pair is None:
        return None if a.reason == b.reason else First(turn=a.turns, step=0, field="end", a=a.reason, b=b.reason)
    here = pair.a or pair.b
    assert here is not None, "a pair has a side"
    field, one, other = _parted(pair.a, pair.b)
    return First(turn=here.turn, step=here.step, field=field, a=one, b=other)


def _parted(a: StepGlance | None, b: StepGlance | None) -> tuple[str, str, str]:
    if a is None or b is None:
        return "step", "" if a is None else _glance(a), "" if b is None else _glance(b)
    if a.asked != b.asked:
        return "asked", a.asked, b.asked
    if a.verdicts != b.verdicts:
        return "verdicts", ", ".join(a.verdicts), ", ".join(b.verdicts)
    if a.text != b.text:
        return "text", a.text, b.text
    for n, (one, other) in enumerate(zip(a.calls, b.calls, strict=False), 1):
        for field in CallGlance.__struct_fields__:
            if getattr(one, field) != getattr(other, field):
                return f"call {n}, {field}", getattr(one, field), getattr(other, field)
    return "calls", plural(len(a.calls), "call"), plural(len(b.calls), "call")


def comparison_lines(found: Comparison) -> Iterator[Line]:
    """For people."""
    for name, side in (("A", found.a), ("B", found.b)):
        yield line(Span(f"{name}  {side.conversation_id}", "heading"), f"  {one_line(side.model)}")
    if found.shared_facts:
        yield line(Span(f"facts 1 to {found.shared_facts} are shared", "dim"))
    if found.same_steps:
        yield line(Span(f"the same at first: {plural(found.same_steps, 'step')}", "dim"))
    if found.first is None:
        yield line(Span("nothing differs", "good"))
    else:
        where = f"turn {found.first.turn}, step {found.first.step}" if found.first.step else f"turn {found.first.turn}"
        yield line("first difference: ", Span(f"{where}: {found.first.field}", "warn"))
        yield line("  A  ", _short(found.first.a))
        yield line("  B  ", _short(found.first.b))
    for pair in found.steps:
        yield from _pair_lines(pair)
    yield from _table(found.a, found.b)


def _pair_lines(pair: Pair) -> Iterator[Line]:
    here = pair.a or pair.b
    assert here is not None, "a pair has a side"
    where = f"{here.turn}.{here.step}"
    if pair.same and pair.a is not None:
        yield line(Span(f"{where:<7}=  {_glance(pair.a)}", "dim"))
        return
    for name, step in (("A", pair.a), ("B", pair.b)):
        yield line(f"{where:<7}{name}  ", Span("–", "dim") if step is None else _glance(step))
        where = ""


def _glance(step: StepGlance) -> str:
    calls = "; ".join(f"{call.name} {one_line(call.arguments)} {call.outcome}" for call in step.calls)
    words = one_line(step.text)
    said = " → ".join(part for part in (_short(words), _short(calls)) if part)
    failed = "" if len(step.verdicts) <= 1 else f"{', '.join(step.verdicts)}: "
    return f"{failed}{said or ', '.join(step.verdicts)}  {step.tokens_in}→{step.tokens_out}"


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _table(a: Side, b: Side) -> Iterator[Line]:
    rows = [
        ("end", a.reason or "–", b.reason or "–"),
        ("turns", str(a.turns), str(b.turns)),
        ("steps", str(a.steps), str(b.steps)),
        ("attempts", str(a.attempts), str(b.attempts)),
        ("tokens", f"{a.tokens_in}→{a.tokens_out}", f"{b.tokens_in}→{b.tokens_out}"),
        ("cost", _cost(a.cost_usd), _cost(b.cost_usd)),
    ]
    rows += [(f"tool {name}", *_counts(a.tools, b.tools, name)) for name in sorted({*a.tools, *b.tools})]
    rows += [(name, *_counts(a.verdicts, b.verdicts, name)) for name in sorted({*a.verdicts, *b.verdicts})]
    wide = max(len(one) for _, one, _ in rows)
    for name, one, other in rows:
        yield line(Span(f"{name:<14}", "dim"), f"{one:<{wide}}  {other}")


def _counts(a: dict[str, int], b: dict[str, int], name: str) -> tuple[str, str]:
    return str(a.get(name, 0)), str(b.get(name, 0))


def _cost(cost_usd: float | None) -> str:
    return "$?" if cost_usd is None else f"${cost_usd:.4f}"
