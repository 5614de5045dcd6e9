"""What a host shows of a conversation and lets others do to it, without a socket in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import World, begun, calling

from turnwright.kernel.ports import Question, ToolContext
from turnwright.providers.script import Step
from turnwright.schema import hosting as said
from turnwright.schema.facts import ApprovalAnswered, InboxAdmitted, Recorded, decode_line
from turnwright.schema.live import LiveEvent, TextDelta, ToolOutput
from turnwright.session.conversation import Conversation
from turnwright.session.hosting import FEED_BYTES_MAX, Host, Hosted
from turnwright.session.questions import Questions
from turnwright.testing.ports import FunctionTools
from turnwright.views.open_parts import OpenParts

TEXT = "It was a dark and stormy night, and the rain fell in torrents."

_others: msgspec.json.Decoder[LiveEvent | said.AnySaid] = msgspec.json.Decoder(LiveEvent | said.AnySaid)


class Client:
    """What one follower was sent, read as a client reads it."""

    def __init__(self) -> None:
        self.facts: list[Recorded] = []
        self.live: list[LiveEvent] = []
        self.behind: list[int] = []
        self.gone = False
        self.reads = asyncio.Event()
        self.reads.set()
        self._parts = OpenParts()

    async def __call__(self, lines: bytes) -> None:
        await self.reads.wait()
        for line in lines.splitlines():
            event = decode_line(line) or _others.decode(line)
            match event:
                case Recorded():
                    self._parts.fact(event.fact)
                    self.facts.append(event)
                case said.Open(parts=parts):
                    self.live += [rest for part in parts if (rest := self._parts.rest_of(part)) is not None]
                case said.Behind(skipped=skipped):
                    self.behind.append(skipped)
                case said.Gone():
                    self.gone = True
                case said.Said():
                    raise AssertionError(event)
                case _:
                    self._parts.live(event)
                    self.live.append(event)

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.live if isinstance(each, TextDelta))


class Stage:
    """A hosted conversation, and the wish to look at it in between."""

    def __init__(self, world: World, conversation: Conversation, questions: Questions) -> None:
        self.world = world
        self.conversation = conversation
        self.host = Host(conversation._session.journal)
        self.hosted: Hosted = self.host.add(conversation, questions)
        self._followers: list[asyncio.Task[None]] = []

    def follow(self, since: int = 0) -> Client:
        client = Client()
        self._followers.append(asyncio.create_task(self.hosted.follow(since, client)))
        return client

    async def end(self) -> None:
        self.hosted.close()
        await asyncio.gather(*self._followers)
        assert self.host.find(self.conversation.id) is None

    async def ask(self, request: said.AnyRequest) -> said.Said:
        return await self.hosted.answer(request)

    @property
    def recorded(self) -> list[Recorded]:
        return self.world.memory.conversations[self.conversation.id].facts


async def staged(
    steps: list[Step],
    *tools: Callable[..., object],
    here: Callable[[Question], Awaitable[str | None]] | None = None,
    wait_s: float = 0.0,
    **replaced: object,
) -> Stage:
    world = World()
    questions = Questions(here, world.clock, wait_s=wait_s)
    session = world.session(steps, *tools, ask=questions, **replaced)
    return Stage(world, await begun(session), questions)


async def test_a_follower_gets_the_turn_from_its_start_whenever_it_comes() -> None:
    """One before it began, one at each delta, one after its end."""
    stage = await staged([calling("look"), Step(text=TEXT, reasoning="hm", chunk=3)], look)
    clients = [stage.follow()]
    unlisten = stage.conversation.listen(lambda event: clients.append(stage.follow()))
    await stage.conversation.say("go")
    unlisten()
    clients.append(stage.follow())
    await stage.end()
    assert len(clients) > 25
    for number, client in enumerate(clients):
        assert client.facts == stage.recorded, number
        assert (client.gone, client.behind) == (True, [])
        assert TEXT.startswith(client.text)
    assert sum(client.text == TEXT for client in clients) > 20, "who comes during the reply gets all of its text"


async def look() -> str:
    """Look."""
    return "seen"


async def test_since_leaves_out_what_is_known() -> None:
    stage = await staged([Step(text="ok")])
    await stage.conversation.say("go")
    client = stage.follow(since=3)
    await stage.end()
    assert client.facts == stage.recorded[3:]


@given(reading=st.lists(st.booleans(), min_size=8, max_size=40), chunk=st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_whoever_reads_in_fits_and_starts_misses_nothing_and_hears_nothing_twice(
    reading: list[bool], chunk: int
) -> None:
    async def play() -> None:
        stage = await staged([calling("look"), Step(text=TEXT * 3, chunk=chunk)], look)
        client = stage.follow()
        fits = iter(reading * 100)

        def stutter(event: object) -> None:
            del event
            client.reads.set() if next(fits) else client.reads.clear()

        stage.conversation.listen(stutter)
        await stage.conversation.say("go")
        client.reads.set()
        await stage.end()
        assert client.facts == stage.recorded
        assert client.text in (TEXT * 3, ""), "nothing live where it came to it after the fact"

    asyncio.run(play())


async def flood(context: ToolContext) -> str:
    """Print more than any client's share."""
    for _ in range(300):
        context.output("x" * (FEED_BYTES_MAX // 100))
        await asyncio.sleep(0)
    return "flooded"


async def test_whoever_does_not_read_falls_behind_and_catches_up() -> None:
    """The turn does not wait for it, and what waits for it is bounded."""
    stage = await staged([calling("flood"), Step(text=TEXT)], flood)
    slow, quick = stage.follow(), stage.follow()
    held: list[int] = []

    def look_at_feeds(event: object) -> None:
        if isinstance(event, ToolOutput):
            slow.reads.clear()
        held.append(max((feed._bytes for feed in stage.hosted._feeds), default=0))

    stage.conversation.listen(look_at_feeds)
    await stage.conversation.say("go")
    slow.reads.set()
    await stage.end()
    assert max(held) <= FEED_BYTES_MAX
    assert (quick.behind, quick.facts) == ([], stage.recorded)
    assert len(slow.behind) == 1
    assert slow.behind[0] > 150
    assert slow.facts == stage.recorded
    assert len(slow.live) + slow.behind[0] == len(quick.live)


async def test_what_is_said_is_on_record_when_it_is_confirmed() -> None:
    stage = await staged([calling("wait"), Step(text="one"), Step(text="two")], wait, tools=_waiting())
    turn = asyncio.create_task(stage.conversation.say("go"))
    await GATE.asked.wait()
    ids = stage.conversation.id
    answers = [
        await stage.ask(said.Steer(id=1, conversation_id=ids, text="left", inbox_id="m_1")),
        await stage.ask(said.Steer(id=2, conversation_id=ids, text="left", inbox_id="m_1")),
        await stage.ask(said.Queue(id=3, conversation_id=ids, text="then tidy", inbox_id="m_2")),
        await stage.ask(said.Queue(id=4, conversation_id=ids, text="never mind", inbox_id="m_3")),
        await stage.ask(said.Withdraw(id=5, conversation_id=ids, inbox_id="m_3")),
        await stage.ask(said.Withdraw(id=6, conversation_id=ids, inbox_id="m_3")),
        await stage.ask(said.Withdraw(id=7, conversation_id=ids, inbox_id="m_9")),
        await stage.ask(said.Steer(id=8, conversation_id=ids, text=" ", inbox_id="m_4")),
    ]
    assert answers == [
        said.Heard(id=1, running=True),
        said.Heard(id=2, running=True),
        said.Heard(id=3, running=True),
        said.Heard(id=4, running=True),
        said.Letter(id=5, state="withdrawn"),
        said.Letter(id=6, state="withdrawn"),
        said.Letter(id=7, state="unknown"),
        said.Refused(id=8, message="There is nothing to say: the text is empty.", remedy="Say it in words."),
    ]
    admitted = [each.fact.inbox_id for each in stage.recorded if isinstance(each.fact, InboxAdmitted)]
    assert admitted == ["m_1", "m_2", "m_3"], "said again under its id, it is heard once"
    GATE.open.set()
    await turn
    assert await stage.ask(said.Withdraw(id=9, conversation_id=ids, inbox_id="m_1")) == said.Letter(
        id=9, state="delivered"
    )
    assert await stage.ask(said.Steer(id=10, conversation_id=ids, text="late", inbox_id="m_5")) == said.Heard(
        id=10, running=False
    )
    await stage.end()


class Gate:
    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.open = asyncio.Event()


GATE = Gate()


@pytest.fixture(autouse=True)
def new_gate() -> None:
    GATE.__init__()  # type: ignore[misc]


async def wait() -> str:
    """Wait until the test lets go."""
    GATE.asked.set()
    await GATE.open.wait()
    return "waited"


def _waiting() -> FunctionTools:
    return FunctionTools(wait, effects={"wait": "runs"})


async def test_stop_answers_when_the_end_is_on_record() -> None:
    stage = await staged([calling("wait")], tools=_waiting())
    assert await stage.ask(said.Stop(id=1, conversation_id=stage.conversation.id)) == said.Stopped(id=1)
    turn = asyncio.create_task(stage.conversation.say("go"))
    await GATE.asked.wait()
    stopped = await stage.ask(said.Stop(id=2, conversation_id=stage.conversation.id))
    assert (stopped, stage.recorded[-1].fact.__struct_config__.tag) == (
        said.Stopped(id=2, reason="cancelled"),
        "turn.ended",
    )
    assert (await turn).reason == "cancelled"
    await stage.end()


async def ask(context: ToolContext) -> str:
    """Ask."""
    return f"answer: {await context.ask('Which?', ('this', 'that'))}"


ASKING = FunctionTools(ask, effects={"ask": "asks"})


async def test_a_question_is_answered_from_elsewhere_once() -> None:
    stage = await staged([calling("ask"), Step(text="ok")], tools=ASKING, here=never)
    turn = asyncio.create_task(stage.conversation.say("go"))
    ids = stage.conversation.id
    while not (asked := await stage.ask(said.Questions(id=1, conversation_id=ids))).questions:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    assert isinstance(asked, said.Asked)
    (question,) = asked.questions
    assert (question.text, question.choices) == ("Which?", ("this", "that"))
    wrong, right, late = [
        await stage.ask(said.Answer(id=2, conversation_id=ids, approval_id=question.approval_id, answer=answer))
        for answer in ("neither", "that", "this")
    ]
    assert isinstance(wrong, said.Refused)
    assert "is not one of the choices" in wrong.message
    assert right == said.Done(id=2)
    assert isinstance(late, said.Refused)
    assert "it was answered" in late.message
    (answered,) = [each.fact for each in stage.recorded if isinstance(each.fact, ApprovalAnswered)]
    assert (answered.answer, answered.by) == ("that", "user")
    assert (await turn).reason == "stop"
    await stage.end()


async def never(question: Question) -> str | None:
    """Somebody sits here, and has not made up his mind."""
    del question
    await asyncio.get_running_loop().create_future()
    return None


async def test_nobody_answers_in_time() -> None:
    stage = await staged([calling("ask"), Step(text="ok")], tools=ASKING, wait_s=3600.0)
    assert (await stage.conversation.say("go")).reason == "needs-user"
    assert stage.world.clock.monotonic() >= 3600
    await stage.end()


async def test_the_first_answer_counts_here_or_elsewhere() -> None:
    left: list[str] = []

    async def here(question: Question) -> str | None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.append(question.text)
        return None

    stage = await staged([calling("ask"), Step(text="ok")], tools=ASKING, here=here)
    turn = asyncio.create_task(stage.conversation.say("go"))
    ids = stage.conversation.id
    while not (asked := await stage.ask(said.Questions(id=1, conversation_id=ids))).questions:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    approval_id = asked.questions[0].approval_id  # type: ignore[attr-defined]
    done = await stage.ask(said.Answer(id=2, conversation_id=ids, approval_id=approval_id, answer="this"))
    assert (done, left, (await turn).reason) == (said.Done(id=2), ["Which?"], "stop")
    await stage.end()


async def test_who_waits_for_an_answer_to_be_recorded_learns_that_the_turn_ended() -> None:
    stage = await staged([calling("ask"), Step(text="ok")], tools=ASKING, here=never)
    turn = asyncio.create_task(stage.conversation.say("go"))
    ids = stage.conversation.id
    while not (asked := await stage.ask(said.Questions(id=1, conversation_id=ids))).questions:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    stage.conversation.stop()
    approval_id = asked.questions[0].approval_id  # type: ignore[attr-defined]
    refused = await stage.ask(said.Answer(id=2, conversation_id=ids, approval_id=approval_id, answer="this"))
    assert isinstance(refused, said.Refused)
    assert (await turn).reason == "cancelled"
    await stage.end()
