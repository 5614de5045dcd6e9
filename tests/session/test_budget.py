"""The ledger of a tree of conversations: what it lets through, what waits, and what a crash makes of it (K6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwright.journal.memory import Memory, MemoryJournal
from turnwright.kernel.ports import Refused
from turnwright.kernel.spending import Charge, charge_of, whole_of
from turnwright.schema.facts import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    Errand,
    Fact,
    SubagentEnded,
    SubagentStarted,
    Timing,
    TurnStarted,
)
from turnwright.schema.limits import Limits
from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price, Route
from turnwright.schema.verdicts import ErrorKind, Verdict
from turnwright.session.budget import Account, Reserved, spent_by
from turnwright.testing.clock import FakeClock

DOLLAR_A_TOKEN = Route(name="r", model="m", price=Price(input=1e6, output=1e6))
UNPRICED = Route(name="free", model="free")


async def reserved(account: Account, tokens: int, route: Route = DOLLAR_A_TOKEN) -> Reserved:
    got = await account.reserve(route, tokens, 0)
    assert isinstance(got, Reserved)
    return got


async def test_what_fits_starts_what_does_not_waits_in_line_and_a_lone_call_uses_up_the_rest() -> None:
    root = Account(Limits(max_cost_usd=10))
    child = Account(Limits(max_tokens=100), within=root)
    first = await reserved(child, 4)
    large = asyncio.create_task(root.reserve(DOLLAR_A_TOKEN, 9, 0))
    await asyncio.sleep(0)
    small = asyncio.create_task(child.reserve(DOLLAR_A_TOKEN, 1, 0))
    await asyncio.sleep(0)
    assert (large.done(), small.done(), root.held) == (False, False, 1)

    first.settle(Charge(tokens=4, cost_usd=4))
    first.settle(Charge(tokens=4, cost_usd=4))
    await asyncio.sleep(0)
    alone = large.result()
    assert isinstance(alone, Reserved)
    assert (small.done(), root.spent.cost_usd) == (False, 4)

    alone.settle(Charge(tokens=9, cost_usd=9))
    assert await small == Refused("cost-budget", "13.0000 of 10.0000 USD are spent")
    assert [standing.spent.cost_usd for standing in child.standings()] == [4, 13]


@pytest.mark.parametrize("answered_meanwhile", [False, True])
async def test_whoever_stops_waiting_leaves_no_share_behind(answered_meanwhile: bool) -> None:
    root = Account(Limits(max_tokens=10))
    first = await reserved(root, 8)
    waiting = asyncio.create_task(root.reserve(DOLLAR_A_TOKEN, 5, 0))
    behind = asyncio.create_task(root.reserve(DOLLAR_A_TOKEN, 2, 0))
    await asyncio.sleep(0)
    if answered_meanwhile:
        first.settle(Charge())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert isinstance(await behind, Reserved)
    assert root.held == (1 if answered_meanwhile else 2)


async def test_an_unknown_price_is_refused_under_a_usd_cap_alone() -> None:
    capped = Account(Limits(max_cost_usd=1))
    refused = await Account(Limits(), within=capped).reserve(UNPRICED, 1, 1)
    assert refused == Refused("cost-budget", "the price of a call is unknown, so max_cost_usd cannot be held")
    assert (await reserved(Account(Limits(max_tokens=1)), 1, UNPRICED)).cost_usd is None


WHOLE = whole_of(1000, 5.0)


def ended(
    verdict: Verdict,
    *,
    usage: Usage | None = None,
    cost_usd: float | None = None,
    kind: ErrorKind | None = None,
    ttft_ms: float | None = None,
    bytes_in: int = 100,
) -> AttemptEnded:
    return AttemptEnded(
        attempt=1,
        route="r",
        verdict=verdict,
        timing=Timing(total_ms=1, ttft_ms=ttft_ms),
        usage=usage,
        cost_usd=cost_usd,
        fault=AttemptFault(message="", kind=kind) if kind else None,
        bytes_in=bytes_in,
    )


@pytest.mark.parametrize(
    ("fact", "charge"),
    [
        (ended("complete", usage=Usage(input=3, output=4), cost_usd=0.5), Charge(tokens=7, cost_usd=0.5)),
        (ended("complete", usage=Usage(input=3, output=4)), Charge(tokens=7, cost_usd=5, unpriced=True)),
        (ended("complete"), Charge(tokens=1000, cost_usd=5, unmetered=True, unpriced=True)),
        (ended("complete", usage=Usage(output=4)), Charge(tokens=1000, cost_usd=5, unmetered=True, unpriced=True)),
        (ended("http_error"), Charge()),
        (ended("interstitial"), Charge()),
        (ended("transport", bytes_in=0), Charge()),
        (ended("transport"), Charge(tokens=1000, cost_usd=5)),
        (ended("truncated", ttft_ms=1.0), Charge(tokens=1000, cost_usd=5)),
        (ended("cancelled"), Charge(tokens=1000, cost_usd=5)),
        (ended("in_band_error", kind="overloaded"), Charge()),
        (ended("in_band_error", kind="overloaded", ttft_ms=1.0), Charge(tokens=1000, cost_usd=5)),
        (ended("truncated", usage=Usage(input=3, output=1), cost_usd=0.1), Charge(tokens=4, cost_usd=0.1)),
    ],
)
def test_what_is_not_reported_counts_in_full_where_a_model_may_have_worked(fact: AttemptEnded, charge: Charge) -> None:
    assert charge_of(fact, WHOLE) == charge


# Any interleaving over any tree


class Node:
    """A conversation: its account while the process lives, and its facts."""

    def __init__(self, tree: Tree, limits: Limits, parent: Node | None) -> None:
        tree.grown += 1
        self.id = f"c_{tree.grown:020d}"
        self.limits = limits
        self.parent = parent
        self.facts: list[Fact] = []
        self.open: list[tuple[Reserved, AttemptStarted]] = []
        self.waiting: list[asyncio.Task[Reserved | Refused]] = []
        self.attempts = 0
        self.account: Account = Account(limits, within=parent.account if parent else None)
        self.largest = 0
        """Of the reservations that were granted anywhere below it."""


class Tree:
    """What happens to a tree of conversations, with the facts that each would have recorded."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.grown = 0

    def grow(self, parent: Node | None, limits: Limits) -> Node:
        node = Node(self, limits, parent)
        node.facts.append(TurnStarted(text=""))
        if parent is not None:
            parent.facts.append(SubagentStarted(conversation=node.id, errand=Errand(depth=1)))
        self.nodes.append(node)
        return node

    def look(self, node: Node) -> None:
        """Whoever was let through sends its request."""
        for task in [each for each in node.waiting if each.done()]:
            node.waiting.remove(task)
            if not task.cancelled() and isinstance(got := task.result(), Reserved):
                started = AttemptStarted(
                    attempt=node.attempts, route="r", reserved_tokens=got.tokens, reserved_usd=got.cost_usd
                )
                node.attempts += 1
                node.facts.append(started)
                node.open.append((got, started))
                above: Node | None = node
                while above is not None:
                    above.largest = max(above.largest, got.tokens)
                    above = above.parent

    def settle(self, node: Node, share: float | None) -> None:
        got, started = node.open.pop(0)
        used = None if share is None else int(got.tokens * share)
        fact = AttemptEnded(
            attempt=started.attempt,
            route="r",
            verdict="truncated" if used is None else "complete",
            timing=Timing(total_ms=1, ttft_ms=1),
            usage=None if used is None else Usage(input=used, output=0),
            cost_usd=used,
        )
        node.facts.append(fact)
        got.settle(charge_of(fact, whole_of(got.tokens, got.cost_usd)))

    def end(self, node: Node) -> None:
        if node.parent is not None and not node.open and not node.waiting and not self.children(node):
            spent = node.account.spent
            node.parent.facts.append(
                SubagentEnded(conversation=node.id, spent_tokens=spent.tokens, spent_usd=spent.cost_usd)
            )
            self.nodes.remove(node)

    def children(self, node: Node) -> list[Node]:
        return [each for each in self.nodes if each.parent is node]

    async def refolded(self, ended: Sequence[Node]) -> dict[str, Charge]:
        journal = MemoryJournal(clock=FakeClock(), memory=Memory())
        for node in [*self.nodes, *ended]:
            lease = await journal.acquire(node.id, create=True)
            await journal.append(lease, [(0, fact) for fact in node.facts])
        return {node.id: await spent_by(journal, node.id) for node in self.nodes}

    async def crash(self, ended: Sequence[Node]) -> None:
        """The process is gone, and another takes up the whole tree."""
        spent = await self.refolded(ended)
        for node in self.nodes:
            for task in node.waiting:
                task.cancel()
            node.open, node.waiting = [], []
            # Nobody will ever see the ends of what was in flight: its facts stay open.
            node.account = Account(
                node.limits, spent=spent[node.id], within=node.parent.account if node.parent else None
            )

    def check(self) -> None:
        for node in self.nodes:
            below = [each for each in self.nodes if self.is_below(each, node)]
            held = sum(got.tokens for each in below for got, _ in each.open)
            for cap in (node.limits.max_tokens, node.limits.max_cost_usd):
                assert cap is None or node.account.spent.tokens + held <= cap + node.largest
            assert node.account.spent.cost_usd == node.account.spent.tokens

    def is_below(self, node: Node, above: Node) -> bool:
        each: Node | None = node
        while each is not None and each is not above:
            each = each.parent
        return each is above


CAPS = st.builds(
    Limits,
    max_tokens=st.sampled_from([None, 30, 100]),
    max_cost_usd=st.sampled_from([None, 50.0]),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("grow"), st.integers(0, 9), CAPS),
    st.tuples(st.just("reserve"), st.integers(0, 9), st.integers(1, 40)),
    st.tuples(st.just("settle"), st.integers(0, 9), st.sampled_from([None, 0.0, 0.3, 1.0])),
    st.tuples(st.just("cancel"), st.integers(0, 9), st.none()),
    st.tuples(st.just("end"), st.integers(0, 9), st.none()),
    st.tuples(st.just("crash"), st.integers(0, 9), st.none()),
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CAPS, st.lists(OPERATIONS, max_size=40))
def test_no_interleaving_spends_more_than_one_reservation_over_a_cap(
    caps: Limits, operations: list[tuple[str, int, object]]
) -> None:
    asyncio.run(lived(caps, operations))


async def lived(caps: Limits, operations: Sequence[tuple[str, int, object]]) -> None:
    tree, ended_nodes = Tree(), list[Node]()
    tree.grow(None, caps)
    for what, which, more in operations:
        node = tree.nodes[which % len(tree.nodes)]
        match what, more:
            case "grow", Limits():
                tree.grow(node, more)
            case "reserve", int():
                node.waiting.append(asyncio.create_task(node.account.reserve(DOLLAR_A_TOKEN, more, 0)))
            case "settle", float() | None if node.open:
                tree.settle(node, more)
            case "cancel", _ if node.waiting:
                node.waiting[0].cancel()
            case "end", _:
                tree.end(node)
                ended_nodes += [] if node in tree.nodes else [node]
            case "crash", _:
                await tree.crash(ended_nodes)
            case _:
                pass
        for _ in range(3):
            await asyncio.sleep(0)
        for each in tree.nodes:
            tree.look(each)
        tree.check()

    live = {
        node.id: node.account.spent.tokens
        + sum(got.tokens for each in tree.nodes if tree.is_below(each, node) for got, _ in each.open)
        for node in tree.nodes
    }
    assert {name: spent.tokens for name, spent in (await tree.refolded(ended_nodes)).items()} == live

    while any(node.open or node.waiting for node in tree.nodes):
        for node in tree.nodes:
            if node.open:
                tree.settle(node, 0.5)
        await asyncio.sleep(0)
        for node in tree.nodes:
            tree.look(node)
    assert [node.account.held for node in tree.nodes] == [0] * len(tree.nodes)
    tree.check()
