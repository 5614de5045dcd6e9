"""What is thrown at the readers of foreign bytes, and what must hold whatever it is: nothing raises, any cut gives the
same, and nothing takes long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, TypeVar

import mcp_targets
import msgspec
import shell_targets
from hypothesis import strategies as st

from turnwright.kernel.assemble import Assembly
from turnwright.kernel.verdict import verdict_of
from turnwright.providers.codec import Dialect, Framing
from turnwright.providers.decode import batches_of
from turnwright.providers.dialects import DIALECTS, codec_of
from turnwright.providers.text_tools.dialects import bound
from turnwright.providers.text_tools.scan import begin, end, step
from turnwright.schema.parts import Closed, Part, Text, ToolCallArguments
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.settings import TextDialect
from turnwright.schema.verdicts import FinishClass
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.said import Frame, Said, SaidCall, framed
from turnwright.wire.reading import BodyReader
from turnwright.wire.sse import Framer

SLOW_S = 1.0
"""No input may take longer."""

Cuts = list[int]
T = TypeVar("T")


class Target(msgspec.Struct, frozen=True):
    """`check` takes what `given` draws, and raises where something does not hold."""

    given: st.SearchStrategy[Any]
    check: Callable[[Any], None]


class TooSlow(AssertionError):
    pass


def cut(body: bytes, cuts: Cuts) -> Iterator[bytes]:
    places = sorted({0, len(body), *(at % (len(body) + 1) for at in cuts)})
    yield from (body[start:stop] for start, stop in pairwise(places))


def chunkings(body: bytes, cuts: Cuts) -> Iterator[Iterable[bytes]]:
    yield [body] if body else []
    yield cut(body, cuts)
    yield (body[at : at + 1] for at in range(len(body)))


def same(make: Callable[[Iterable[bytes]], T], body: bytes, cuts: Cuts) -> T:
    """Makes it from the body in three chunkings, in time."""
    made = []
    for chunks in chunkings(body, cuts):
        began = time.process_time()
        made.append(make(chunks))
        if time.process_time() - began > SLOW_S:
            raise TooSlow(f"{len(body)} bytes took {time.process_time() - began:.1f} s")
    assert made[0] == made[1] == made[2]
    return made[0]


CUTS = st.lists(st.integers(0, 5_000), max_size=12)

# Framer: lines of event streams, well-formed and not.

LINES = st.sampled_from(
    [
        *(b"data: 1", b"data:2", b"data", b"data: \xc3\xa9", b"data: \xff", b"dat", b"x: y", b"data: a: b", b"", b""),
        *(b": c", b":", b"event: e", b"event", b"id: 9", b"id: \x00", b"retry: 5", b"retry: x", b"\xef\xbb\xbfdata: 1"),
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b""])
EVENT_STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=30).map(b"".join) | st.binary(max_size=300)


def _frame(given: tuple[bytes, Cuts]) -> None:
    body, cuts = given

    def events(chunks: Iterable[bytes]) -> object:
        framer = Framer()
        found = [event for chunk in chunks for event in framer.feed(chunk)]
        return [*found, *framer.end()], framer.utf8.replaced

    same(events, body, cuts)


# Gate and framing together, under any headers.

CONTENT_TYPES = ["", "text/event-stream", "application/json; charset=utf-8", "application/x-ndjson", "text/html", "x"]
HEADS = st.fixed_dictionaries(
    {}, optional={"content-type": st.sampled_from(CONTENT_TYPES), "content-encoding": st.sampled_from(["gzip", "br"])}
)
ASKED: st.SearchStrategy[Framing | None] = st.sampled_from(["sse", "ndjson", "json-array", None])
STATUSES = st.sampled_from([200, 200, 200, 204, 302, 404, 500, 529])
OPENINGS = st.sampled_from(
    [b"", b" \n", b"\xef\xbb\xbf", b"<html>", b"{", b"[", b'{"a":1}', b'[{"a":1},', b"data: {}\n\n", b": x\n", b"retry"]
)
BODIES = st.tuples(OPENINGS, EVENT_STREAMS | st.binary(max_size=60)).map(b"".join)


def _gate(given: tuple[bytes, Cuts, dict[str, str], Framing | None, int]) -> None:
    body, cuts, headers, asked, status = given

    def read(chunks: Iterable[bytes]) -> object:
        reader = BodyReader(status, headers, asked)
        frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
        return [*frames, *reader.end()], reader.reading, reader.refused, reader.body, reader.excerpt

    same(read, body, cuts)


# Codecs: what a provider would say, with something wrong in it.

_WORDS = """
id model choices delta message content reasoning reasoning_content reasoning_details refusal tool_calls index function
name arguments function_call finish_reason usage prompt_tokens completion_tokens total_tokens error code type text
thinking signature partial_json content_block stop_reason input output item response output_index status candidates
parts functionCall args thought thoughtSignature finishReason usageMetadata promptTokenCount done done_reason object
metadata raw summary call_id item_id content_index details reason cost x_groq prompt_tokens_details input_tokens custom
completion_tokens_details output_tokens incomplete_details promptFeedback blockReason eval_count annotations data
reasoning_text error_type refusal partialArgs jsonPath willContinue
"""
_KINDS = """
message_start content_block_start content_block_delta content_block_stop message_delta message_stop message error ping
text_delta input_json_delta thinking_delta signature_delta citations_delta compaction_delta tool_use server_tool_use
thinking redacted_thinking text response.created response.output_text.delta response.output_item.added
response.output_item.done response.completed response.incomplete response.failed function_call custom_tool_call
response.function_call_arguments.delta response.reasoning_text.delta response.refusal.delta reasoning stop tool_calls
response.output_text.done response.refusal.done response.function_call_arguments.done abort MALFORMED_FUNCTION_CALL
"""
WORDS, KINDS = _WORDS.split(), _KINDS.split()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 600)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from([*KINDS, "{}", '{"error":{"message":"x"}}', "[DONE]", "ls"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=6)
PIECES = st.lists(st.sampled_from(["Hello", " ", "wörld", "你好🙂", "\n", '"', "\\", "<", "data: x\n\n"]), max_size=3)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "x"]), st.text(max_size=5) | st.integers(), max_size=2)
CALLS = st.builds(
    lambda name, arguments, at, id_: SaidCall(name=name, fragments=(arguments[:at], arguments[at:]), id=id_),
    st.sampled_from(["ls", "glob"]),
    ARGUMENTS.map(json.dumps),
    st.integers(0, 9),
    st.sampled_from(["", "call_1", "call_2"]),
)
FINISHES: list[FinishClass] = ["stop", "length", "tool_calls", "content_filter"]
SAID = st.builds(
    lambda text, reasoning, calls, refusal, finish: Said(
        text=tuple(text), reasoning=tuple(reasoning), calls=tuple(calls), refusal=tuple(refusal), finish=finish
    ),
    PIECES,
    PIECES,
    st.lists(CALLS, max_size=2),
    PIECES.map(lambda pieces: pieces[:1]),
    st.sampled_from(FINISHES),
)
NOISES = [b"", b"", b"", b": keepalive\n\n", b"\r\n", b"event: ping\ndata: {}\n\n", b"data: {\n\n", b"\n"]
NOISE = st.sampled_from(NOISES)


@st.composite
def replies(draw: st.DrawFn) -> tuple[Dialect, bytes, dict[str, str], int, Framing | None]:
    dialect = draw(st.sampled_from(DIALECTS))
    speaker = SPEAKERS[dialect]
    streamed = draw(st.booleans())
    said = draw(SAID)
    if streamed:
        frames = speaker.stream(said)
        for at in draw(st.lists(st.integers(0, len(frames) - 1), max_size=2)):
            frames[at] = _bent(draw, frames[at])
        frames = [frames[at] for at in _order(draw, len(frames))]
        noise = draw(st.lists(NOISE, min_size=1, max_size=3))
        body = b"".join(framed(frame, speaker.framing) + noise[at % len(noise)] for at, frame in enumerate(frames))
        kind = "text/event-stream" if speaker.framing == "sse" else "application/x-ndjson"
    else:
        body = _bent(draw, Frame("other", msgspec.json.encode(speaker.document(said)))).data
        kind = "application/json"
    if draw(st.booleans()):
        body = body[: draw(st.integers(0, len(body)))]
    asked: Framing | None = speaker.framing if streamed else None
    return dialect, body, {"content-type": kind}, draw(STATUSES), asked


def _order(draw: st.DrawFn, length: int) -> Sequence[int]:
    """Most streams come in order; some lose, repeat or swap events."""
    if draw(st.integers(0, 2)):
        return range(length)
    return draw(st.lists(st.integers(0, length - 1), max_size=length + 2))


def _bent(draw: st.DrawFn, frame: Frame) -> Frame:
    """One value of it changed, a key taken away, or another object in its place."""
    if frame.data == b"[DONE]" or not draw(st.integers(0, 3)):
        return Frame(frame.kind, json.dumps(draw(OBJECTS)).encode(), frame.event)
    value = json.loads(frame.data)
    places = list(_places(value))
    if not places:
        return frame  # bent before, into an object without anything in it
    holder, key = draw(st.sampled_from(places))
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(VALUES)
    return Frame(frame.kind, json.dumps(value).encode(), frame.event)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Iterable[Any] = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def _decode(given: tuple[tuple[Dialect, bytes, dict[str, str], int, Framing | None], Cuts]) -> None:
    (dialect, body, headers, status, asked), cuts = given
    codec = codec_of(dialect)

    def parts(chunks: Iterable[bytes]) -> list[Part]:
        batches = batches_of(codec, chunks, status=status, headers=headers, asked=asked)
        return [part for batch in batches for part in batch]

    found = same(parts, body, cuts)
    numbers = count()
    assembly = Assembly(new_id=lambda: f"own-{next(numbers)}", offered={"ls", "glob"})
    assembly.add(found)
    reply, closed = assembly.reply(), found[-1]
    assert isinstance(closed, Closed)
    verdict_of(reply, closed)
    for call in reply.message.calls:
        assert isinstance(json.loads(call.arguments), dict)


# Text dialects: replies in which a model writes its calls.

TEXT_DIALECTS: tuple[TextDialect, ...] = (
    "xml-json",
    "bash-block",
    "search-replace",
    "unified-diff",
    "apply-patch",
    "pythonic",
)
_PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_PATCH = {"type": "object", "properties": {"format": {"type": "string"}, "text": {"type": "string"}}}
TOOLS = (
    ToolSpec(name="read", description="Reads.", parameters=_PATH),
    ToolSpec(name="bash", description="Runs.", parameters=_COMMAND),
    ToolSpec(name="patch", description="Changes.", parameters=_PATCH),
)
SCRAPS = [
    *('<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>', "<tool_call>", "</tool_call>", "<tool"),
    *("```bash\n", "```", "````", "~~~", "```diff\n", "--- a\n+++ b\n", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"),
    *("*** Begin Patch", "*** End Patch", "*** Add File: x", "+x", "[read(path='a')]", "[", "]", "(", ")", "'''", '"'),
    *("src/a.py", "nope(x=1)", "#", "\\", "{", "}", " ", "    ", "\t", "\r", "\n", "\n", "\n\n", "é", "🙂", "\x00"),
]
SPOKEN = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=4), max_size=30).map("".join)


def _read_text(given: tuple[list[TextDialect], str, Cuts]) -> None:
    dialects, text, cuts = given
    notations = bound(dialects, TOOLS).notations

    def parts(chunks: Iterable[str]) -> list[Part]:
        state = begin(notations)
        made: list[Part] = []
        for chunk in chunks:
            state, more = step(state, chunk)
            made += more
        return _joined([*made, *end(state)])

    places = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    began = time.process_time()
    whole = parts([text])
    assert parts(text[start:stop] for start, stop in pairwise(places)) == whole
    assert parts(text) == whole
    if time.process_time() - began > SLOW_S:
        raise TooSlow(f"{len(text)} characters took {time.process_time() - began:.1f} s")


def _joined(parts: Iterable[Part]) -> list[Part]:
    """Neighbouring fragments of one thing made one: what no cutting may change."""
    whole: list[Part] = []
    for part in parts:
        last = whole[-1] if whole else None
        match part, last:
            case Text(text=text), Text(text=before):
                whole[-1] = Text(before + text)
            case ToolCallArguments(fragment=more), ToolCallArguments(fragment=before) if part.index == last.index:
                whole[-1] = ToolCallArguments(index=part.index, fragment=before + more)
            case _:
                whole.append(part)
    return whole


TARGETS: Mapping[str, Target] = {
    "framer": Target(st.tuples(EVENT_STREAMS, CUTS), _frame),
    "gate": Target(st.tuples(BODIES, CUTS, HEADS, ASKED, STATUSES), _gate),
    "codecs": Target(st.tuples(replies(), CUTS), _decode),
    "text dialects": Target(
        st.tuples(st.lists(st.sampled_from(TEXT_DIALECTS), min_size=1, max_size=6, unique=True), SPOKEN, CUTS),
        _read_text,
    ),
    "mcp messages": Target(st.tuples(mcp_targets.MESSAGES, CUTS), mcp_targets.read_lines(same)),
    "mcp arguments": Target(st.tuples(mcp_targets.ARGUMENTS, mcp_targets.SCHEMAS), mcp_targets.hold_arguments),
    "mcp tools": Target(mcp_targets.DESCRIBED, mcp_targets.describe),
    "permissions": Target(shell_targets.GIVEN, shell_targets.judge),
    "mcp entries": Target(mcp_targets.WRITTEN | mcp_targets.ANY, mcp_targets.configure),
}
