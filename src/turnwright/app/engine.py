"""The composition: the only place that names concrete parts and joins them to what a conversation needs."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.confining import looking_for_means
from turnwright.app.context import PromptContext
from turnwright.app.far_machine import Far, far_of
from turnwright.app.ground import Ground, check_workspace, ground_far, ground_here
from turnwright.app.guards import completing, guards_of, look_into, told_of
from turnwright.app.ids import SystemIds, jitter
from turnwright.app.instructed_tools import InstructedTools
from turnwright.app.journals import opened_journal
from turnwright.app.masked_tools import MaskedTools
from turnwright.app.mcp import NO_SERVERS, McpServers, configured_servers, of_servers
from turnwright.app.models import Opened, opened_model
from turnwright.app.modes import Modes, modes_of, unknown_tools
from turnwright.app.permitted_tools import PermittedTools, permits_for
from turnwright.app.secrets import masker_of
from turnwright.app.skills import Skills, skill_tool
from turnwright.app.subagents import Offer, Sender
from turnwright.app.trust import not_trusted
from turnwright.app.turns import opening
from turnwright.app.versions import WorkspaceVersions
from turnwright.config.environment import process_environment
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.kernel.ports import Ask, Guards, Model, Question
from turnwright.machine.keeper import Keeper
from turnwright.machine.sandbox.means import Found
from turnwright.schema.errors import ConfigError
from turnwright.schema.facts import ConversationOpened, Errand, Note
from turnwright.schema.masking import Masker
from turnwright.schema.permissions import Permissions
from turnwright.schema.settings import Settings, answered_by
from turnwright.session.budget import Account
from turnwright.session.conversation import Session
from turnwright.session.subagents import TASK, within_errand
from turnwright.tools.registry import FunctionTool, Toolbox
from turnwright.tools.standard import standard_tools

RUNS_FOLDER = "runs"


async def nobody_answers(question: Question) -> str | None:
    """`Ask` where there is nobody: a denial."""
    del question
    return None


class Engine:
    """What the conversations of one process share: journal, clock, ids, the keeper of commands."""

    def __init__(
        self,
        loaded: Loaded,
        environ: Mapping[str, str],
        journal: Journal,
        keeper: Keeper,
        looking: asyncio.Task[Found] | None,
    ) -> None:
        """`looking`: for a sandbox."""
        self.loaded = loaded
        self.journal = journal
        self.clock = SystemClock()
        self._environ = environ
        self._keeper = keeper
        self._looking = looking
        self._masker = masker_of(loaded, environ)
        self.mcp_servers = McpServers(loaded, environ, keeper, self.clock)
        self.hosts: list[Offer] = []
        """Where conversations that begin in the middle of another's turn are offered to other processes."""

    @asynccontextmanager
    async def session(
        self,
        workspace: Path,
        *,
        model: Model | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        api_key: str | None = None,
        ask: Ask = nobody_answers,
        guards: Callable[[], Guards] | None = None,
        permissions: Permissions | None = None,
        mode: str = "",
        json_object: bool = False,
        streamed: bool | None = None,
        mcp: bool = True,
        errand: Errand | None = None,
        within: Account | None = None,
    ) -> AsyncIterator[Session]:
        """A workspace, a model and tools, joined. Leaving stops every command that still runs in it. `mode` is one in
        place of `loop.sequence`.

        `streamed` leaves no choice to what is known of the routes: a probe must find out. Without `mcp` no server is
        started. With an `errand` it is a subagent's, `within` the budget of whoever waits for it.
        """
        settings, trust = self.loaded.settings, self.loaded.trust.at(workspace)
        modes, far = modes_of(settings, mode), far_of(settings.machine.ssh)
        if far is None:
            check_workspace(workspace, self.loaded.folders, modes)
        async with AsyncExitStack() as stack:
            opened = Opened(model=model, masker=self._masker) if model else None
            opened = opened or await opened_model(
                stack, self.loaded, self._environ, self.clock, api_key, self._masker, streamed
            )
            ground = await self._ground(stack, workspace, far, modes, opened.masker)
            machine, skills = ground.machine, ground.skills if tools is None else Skills()
            chosen = [*_chosen(tools, settings.tools.include, skills), *completing(settings.completion)]
            wanted = mcp and tools is None
            servers = configured_servers(self.loaded, workspace, trust, self._environ) if wanted else NO_SERVERS
            offer = await self.mcp_servers.offer(servers, settings.tools.include, errand.tools if errand else ())
            if offer is not None:
                stack.push_async_callback(offer.close)
            masker = opened.masker.also(secret for entry in servers.entries for secret in entry.secrets)
            sending = self._sending(
                workspace,
                errand,
                tools=tools,
                model=model,
                api_key=api_key,
                guards=guards,
                mcp=mcp,
                permissions=permissions,
            )
            if sending is None:
                chosen = [each for each in chosen if each.__name__ != TASK]
            known = [each.__name__ for each in chosen]
            toolbox = Toolbox(chosen, machine=machine, source=offer, modes=modes.offers, only=_only(errand, settings))
            permits = permits_for(
                self.loaded, workspace, lambda: machine.confinement, named=permissions, given=_brought(tools or ())
            )
            stack.push_async_callback(toolbox.close)
            instructions, nested = ground.instructions, ground.nested
            instructed = InstructedTools(toolbox, nested) if nested is not None else toolbox
            offers_skills = any(spec.name == "skill" for name in modes.names for spec in toolbox.offered(name))
            yield Session(
                journal=self.journal,
                model=opened.model,
                tools=PermittedTools(MaskedTools(instructed, masker), permits),
                context=PromptContext(
                    workspace=machine.workspace,
                    confinement=machine.confinement,
                    mode_prompts=modes.prompts,
                    apart=settings.prompts.tool_prompt_mode == "per_turn_append",
                    completion=told_of(settings.completion),
                    instructions=masker(instructions.text),
                    appended=settings.prompts.append,
                    skills=masker(skills.section) if offers_skills else "",
                    sent=errand is not None,
                    condensed=nested.forget if nested is not None else lambda: None,
                    json_object=json_object,
                ),
                guards=guards or guards_of(settings),
                # What a subagent changes belongs to the step that waits for it.
                versions=self._versions(stack, workspace, chosen) if within is None and nested is not None else None,
                sending=sending,
                within=within,
                depth=0 if within is None or errand is None else errand.depth,
                look_into=look_into(machine),
                beside=offer,
                clock=self.clock,
                ids=SystemIds(self.clock.wall_ms),
                masker=masker,
                captures=opened.captures,
                ask=permits.asking(ask),
                jitter=jitter,
                limits=settings.loop.limits if errand is None else within_errand(settings.loop.limits, errand),
                retry=settings.loop.retry,
                dispatch=settings.loop.dispatch,
                compaction=settings.loop.compaction,
                mode=modes.first,
                course=modes.course,
                stays_in_mode=bool(mode),
                tiers=opened.tiers,
                reasoning={"on": True, "off": False}.get(settings.reasoning),
                task_class=None if settings.loop.task_class == "auto" else settings.loop.task_class,
                confinement=machine.confinement,
                notices=(
                    *ground.notices,
                    *(
                        Note(code=code, text=f"not used: {why}")
                        for code, skipped in (("instructions", instructions.skipped), ("skills", skills.skipped))
                        for why in skipped
                    ),
                    *(Note(code="narrowed", text=f"not used: {why}") for why in self.loaded.refused),
                    *(Note(code="modes", text=f"not used: {why}") for why in unknown_tools(settings, known)),
                    *map(
                        not_trusted,
                        (*self.loaded.untrusted, *instructions.untrusted, *skills.untrusted, *servers.untrusted),
                    ),
                ),
            )

    async def _ground(
        self, stack: AsyncExitStack, workspace: Path, far: Far | None, modes: Modes, masker: Masker
    ) -> Ground:
        if far is not None:
            return await ground_far(stack, self.loaded, far, workspace, self._journal_files)
        return await ground_here(
            stack,
            self.loaded,
            self._environ,
            self._keeper,
            workspace,
            modes,
            masker,
            self._journal_files,
            self._looking,
        )

    def _sending(self, workspace: Path, errand: Errand | None, **given: Any) -> Sender | None:
        """None where a subagent would lie too deep. Its model may be another one than that of whoever sends it."""
        rules = self.loaded.settings.subagents
        depth = errand.depth + 1 if errand else 1
        if depth > rules.depth:
            return None
        engine = self
        if rules.model:
            settings = answered_by(self.loaded.settings, rules.model)
            loaded = msgspec.structs.replace(self.loaded, settings=settings)
            engine, given["model"] = copy.copy(self), None
            engine.loaded = loaded

        def open_session(errand: Errand, ask: Ask, within: Account) -> AbstractAsyncContextManager[Session]:
            return engine.session(workspace, ask=ask, mode=errand.mode, errand=errand, within=within, **given)

        def opened() -> ConversationOpened:
            name = "" if given["model"] is None else "given"
            return opening(engine.loaded.settings, workspace, name, assigned=engine.loaded.assigned)

        return Sender(rules, depth, open_session, opened, self.hosts)

    def _versions(
        self, stack: AsyncExitStack, workspace: Path, chosen: Sequence[Callable[..., Any]]
    ) -> WorkspaceVersions | None:
        """None where no tool of ours is offered that may change a file."""
        settings = self.loaded.settings.versions
        if not settings.enabled or not {"write", "edit", "patch", "bash"} & {each.__name__ for each in chosen}:
            return None
        versions = WorkspaceVersions(workspace, self.loaded.folders.data, settings, self.clock.wall_ms)
        stack.push_async_callback(versions.close)
        return versions

    def _journal_files(self) -> frozenset[tuple[int, int]]:
        """What no tool may open, by whatever name (J1a). `stat` opens nothing."""
        keys: set[tuple[int, int]] = set()
        if self.loaded.settings.journal.url:
            return frozenset(keys)
        with os.scandir(self.loaded.folders.journal) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process has just taken its log away
                    found = entry.stat()
                    keys.add((found.st_dev, found.st_ino))
        return frozenset(keys)


@asynccontextmanager
async def open_engine(loaded: Loaded, *, label: str = "turnwright") -> AsyncIterator[Engine]:
    """Opens the journal, and looks for a sandbox; everything else starts on first use."""
    make_private(loaded.folders.data)
    keeper = Keeper()
    try:
        async with looking_for_means(loaded, keeper) as looking, opened_journal(loaded, label=label) as journal:
            engine = Engine(loaded, process_environment(), journal, keeper, looking)
            try:
                yield engine
            finally:
                await engine.mcp_servers.close()
    finally:
        await keeper.close()


def make_private(folder: Path) -> None:
    """What is made here is for this user's eyes: journal, run folders, output of commands. A folder that exists keeps
    its mode, and where none can be made the journal says so in its own words."""
    if not folder.is_dir():
        with suppress(OSError):
            folder.mkdir(parents=True, mode=0o700)


def _brought(tools: Sequence[Callable[..., Any]]) -> frozenset[str]:
    """The names of those that are the program's own."""
    ours = {each.__name__ for each in standard_tools()}
    return frozenset(FunctionTool.of(each).spec.name for each in tools if each.__name__ not in ours)


def _chosen(
    tools: Sequence[Callable[..., Any]] | None, include: tuple[str, ...] | None, skills: Skills
) -> Sequence[Callable[..., Any]]:
    offered = standard_tools() if tools is None else tuple(tools)
    if skills.found:
        offered = (*offered, skill_tool(skills.found))
    if include is None:
        return offered
    known = {tool.__name__: tool for tool in offered}
    own = [name for name in include if not of_servers(name)]
    for name in own:
        if name not in known:
            raise ConfigError(
                f"tools.include names {name!r}, and there is no such tool.", remedy=f"There are: {', '.join(known)}."
            )
    return [known[name] for name in own]


def _only(errand: Errand | None, settings: Settings) -> frozenset[str] | None:
    """What a subagent is offered of what there is; None is all of it."""
    if errand is None:
        return None
    return frozenset((*errand.tools, *(each.__name__ for each in completing(settings.completion))))
