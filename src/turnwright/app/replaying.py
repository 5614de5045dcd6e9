"""A conversation of the journal, run again: offline, from its recorded bytes or parts, with its tools as they were or
executed again in a copy of the workspace."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from turnwright.app.reading import facts_of
from turnwright.journal.port import Journal
from turnwright.kernel.ports import ToolContext, ToolOutcome, Tools
from turnwright.schema.errors import InputError, JournalDamaged
from turnwright.schema.facts import AttemptEnded, ConversationOpened, Fact, Recorded
from turnwright.schema.ids import ConversationId
from turnwright.schema.parts import Part, Usage, UsagePart
from turnwright.session.recorder import with_payload
from turnwright.session.replay.ports import Batches, Rerun
from turnwright.session.replay.run import Replay, gaps, replay
from turnwright.session.subagents import TASK
from turnwright.views.divergence import Divergence

if TYPE_CHECKING:
    from turnwright.app.engine import Engine

Source: TypeAlias = Literal["kept", "bytes", "parts"]
"""`kept`: from the bytes of every attempt whose bytes were kept, from the parts of the others."""


async def replayed(
    journal: Journal, conversation_id: ConversationId, source: Source = "kept", rerun: Rerun | None = None
) -> Replay:
    """Reads the journal, and nothing else."""
    facts = await facts_of(journal, conversation_id)
    found = _damage(journal, conversation_id, facts)
    whole: list[Recorded] = []
    for each in facts:
        try:
            whole.append(msgspec.structs.replace(each, fact=await with_payload(each.fact, journal)))
        except JournalDamaged as bad:
            found = found or _unreadable(each, "output_blob", str(bad))
        if source != "parts" and isinstance(each.fact, AttemptEnded) and each.fact.capture is not None:
            try:
                await journal.blob(each.fact.capture.sha256)
            except JournalDamaged as bad:
                found = found or _unreadable(each, "capture", str(bad))
    if found is not None:
        return _not_run(conversation_id, facts, found)
    if source == "bytes":
        _require_bytes(facts)
    kept = None if source == "parts" else KeptBytes(journal)
    return await replay(whole, bytes_of=kept, rerun=rerun)


def _damage(journal: Journal, conversation_id: ConversationId, facts: Sequence[Recorded]) -> Divergence | None:
    """A record that is not what was written cannot be held against anything."""
    why = {one.seq: one.why for one in journal.damaged(conversation_id)}
    first = min([*gaps(facts), *why], default=None)
    if first is None:
        return None
    return Divergence(
        conversation_id=conversation_id,
        seq=first,
        type="a record that is damaged",
        field="",
        recorded=why.get(first, "it is missing"),
        replayed=None,
    )


def _unreadable(each: Recorded, field: str, why: str) -> Divergence:
    assert isinstance(each.fact, Fact), "unknown facts name no payloads that we read"
    return Divergence(
        conversation_id=each.conversation_id,
        seq=each.seq,
        type=str(each.fact.__struct_config__.tag),
        field=field,
        recorded=why,
        replayed=None,
    )


def _not_run(conversation_id: ConversationId, facts: Sequence[Recorded], found: Divergence) -> Replay:
    return Replay(
        conversation_id=conversation_id,
        facts=len(facts),
        replayed=0,
        turns=0,
        steps=0,
        from_bytes=0,
        from_parts=0,
        reran=0,
        recorded_ms=0,
        divergence=found,
    )


def _require_bytes(facts: Sequence[Recorded]) -> None:
    for each in facts:
        match each.fact:
            case AttemptEnded(capture=None, verdict=verdict) if verdict != "cancelled":
                raise InputError(
                    f"The bytes of the attempt that ended at {each.conversation_id}:{each.seq} were not kept.",
                    remedy="Replay without --from, or record with `capture: all`.",
                )
            case _:
                pass


class KeptBytes:
    """`session.replay.ports.Bytes`: cassettes of the journal through gate, framing and codec again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, ended: AttemptEnded, at_ms: int, own_ids: Callable[[bytes], None]) -> Batches | None:
        if ended.capture is None:
            return None
        return await batches_of_cassette(await self._journal.blob(ended.capture.sha256), ended, at_ms, own_ids)


async def batches_of_cassette(
    data: bytes, ended: AttemptEnded, at_ms: int, own_ids: Callable[[bytes], None]
) -> Batches:
    """Its parts in batches. What `ended` knows and no byte says is put beside them: a cost from a catalogue."""
    from turnwright.app.decode import dialect_of
    from turnwright.providers.decoder import closing
    from turnwright.providers.dialects import codec_of
    from turnwright.providers.http_route import ReplyReader
    from turnwright.wire.capture import read_cassette
    from turnwright.wire.playback import Playback

    cassette = read_cassette(data)
    codec = codec_of(dialect_of(cassette.labels.get("dialect", "")))
    playback = Playback(cassette)
    reader = ReplyReader(playback, codec)
    batches: list[Sequence[Part]] = []
    while (parts := await reader.read()) is not None:
        batches.append(parts)
    own_ids(b"".join(chunk.data for chunk in cassette.chunks))
    if ended.verdict != "cancelled":
        assert playback.ended is not None, "a reply is read to its end"
        window = None
        last = closing(codec, playback.head, playback.ended, at_ms / 1000, decoder=reader.decoder, window=window)
        batches.append([*_costs(ended), *last])
    return _with_text_tools(batches, cassette.labels.get("tools", ""))


def _costs(ended: AttemptEnded) -> Sequence[Part]:
    if ended.cost_usd is None or ended.usage is None:
        return ()
    return [UsagePart(usage=Usage(), reported=Usage(), cost_usd=ended.cost_usd)]


def _with_text_tools(batches: list[Sequence[Part]], dialects: str) -> list[Sequence[Part]]:
    """Calls that were written as text are read out of it as they were then, for the tools that there are now."""
    if not dialects:
        return batches
    from turnwright.providers.text_tools.attempts import read_parts
    from turnwright.providers.text_tools.dialects import bound
    from turnwright.providers.text_tools.scan import begin
    from turnwright.schema.settings import TextDialect
    from turnwright.tools.registry import Toolbox
    from turnwright.tools.standard import standard_tools

    named = [msgspec.convert(name, TextDialect) for name in dialects.split(",")]
    state = begin(bound(named, Toolbox(standard_tools()).offered("build")).notations)
    read: list[Sequence[Part]] = []
    for parts in batches:
        state, made = read_parts(state, parts)
        read.append(made)
    return read


@asynccontextmanager
async def scratch_tools(engine: Engine, opened: ConversationOpened, mode: str) -> AsyncIterator[tuple[Rerun, str]]:
    """Tools in a copy of the workspace, which is thrown away. The second value says what it is a copy of."""
    from turnwright.providers.scripted import ScriptedModel

    workspace = Path(opened.workspace)
    copy = await asyncio.to_thread(_copied, workspace)
    try:
        # What a server does, it does out in the world: its calls answer as they did.
        async with engine.session(copy, model=ScriptedModel([]), mode=mode, mcp=False) as session:
            yield _Scratch(session.tools, str(workspace), str(copy)), f"a copy of {workspace} as it is now"
    finally:
        await asyncio.to_thread(shutil.rmtree, copy.parent, ignore_errors=True)


def _copied(workspace: Path) -> Path:
    if not workspace.is_dir():
        raise InputError(
            f"The workspace {workspace} is gone, so its tools cannot be executed again.",
            remedy="Replay with --tools recorded.",
        )
    copy = Path(tempfile.mkdtemp(prefix="turnwright-replay-")).resolve() / workspace.name
    try:
        shutil.copytree(workspace, copy, symlinks=True)
    except (OSError, shutil.Error) as bad:
        shutil.rmtree(copy.parent, ignore_errors=True)
        raise InputError(
            f"The workspace {workspace} cannot be copied: {bad}.", remedy="Make room, or its files readable."
        ) from bad
    return copy


class _Scratch:
    """`session.replay.ports.Rerun`. Paths into the workspace mean the copy, and read as they read then."""

    def __init__(self, tools: Tools, workspace: str, copy: str) -> None:
        self._tools = tools
        self._workspace = workspace
        self._copy = copy

    async def __call__(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        moved = _moved(arguments, self._workspace, self._copy)
        assert isinstance(moved, dict), "arguments are an object"
        outcome = await self._tools.run(name, moved, context)
        return msgspec.structs.replace(outcome, output=outcome.output.replace(self._copy, self._workspace))

    def knows(self, name: str) -> bool:
        return name != TASK and any(
            spec.name == name and spec.effect != "asks" for spec in self._tools.offered("build")
        )


def _moved(value: Any, workspace: str, copy: str) -> Any:
    match value:
        case str():
            return value.replace(workspace, copy)
        case dict():
            return {name: _moved(each, workspace, copy) for name, each in value.items()}
        case list():
            return [_moved(each, workspace, copy) for each in value]
        case _:
            return value
