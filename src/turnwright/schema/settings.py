"""Everything a user may set, in one tree. `config/` fills it from layers; nobody below sees a file or a variable.

A docstring under a field is its line in the reference (`docs/reference/config.md` is made from them).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import msgspec

from turnwright.schema.guards import Completion, Guards
from turnwright.schema.limits import Compaction, Dispatch, Limits, Retry
from turnwright.schema.mcp import Mcp
from turnwright.schema.permissions import Permissions
from turnwright.schema.sandbox import NetworkReach, SandboxLevel
from turnwright.schema.verdicts import Effect

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
Usd: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Tokens: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details"]
AuthStyle: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "query", "none"]
"""How a key is shown to a host; `query` is `?key=…`."""
REASONING_FIELDS: tuple[ReasoningField, ...] = get_args(ReasoningField)
TextDialect: TypeAlias = Literal["xml-json", "bash-block", "search-replace", "unified-diff", "apply-patch", "pythonic"]
"""How a model without tools of its own writes its calls as text."""
ToolDialect: TypeAlias = Literal[
    "native", "xml-json", "bash-block", "search-replace", "unified-diff", "apply-patch", "pythonic"
]

ENDPOINT = "endpoint"
"""The provider that `--base-url` (or `Agent(base_url=...)`) makes for one run."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings."""


class HostQuirks(Section, frozen=True, kw_only=True):
    """`providers.<name>.quirks`: what the host does differently. What is left out is as its profile says."""

    system_role: Literal["system", "developer"] | None = None
    """Who says the system prompt."""
    runtime_role: Literal["system", "user", "developer"] | None = None
    """Who says what the runtime says in the middle of a conversation. `user`: marked as the runtime's own."""
    include_usage: bool | None = None
    """Ask for usage in streams (`stream_options.include_usage`); some hosts refuse the field."""
    max_tokens_key: str | None = None
    """The name of the field that limits the reply: `max_tokens`, `max_completion_tokens`."""
    reasoning_field: ReasoningField | None = None
    """Under which key reasoning goes back to the host."""
    reasoning_replay: Literal["never", "with_calls", "always"] | None = None
    """Which of the model's messages carry their reasoning when they are sent again."""
    parallel_tool_calls: bool | None = None
    """Send `parallel_tool_calls`. Left out: the field is not sent."""
    call_ids: Literal["any", "alnum9"] | None = None
    """`alnum9`: ids of calls are nine letters or digits (Mistral)."""
    tool_images: bool | None = None
    """Images may stand in a tool's result; otherwise they follow in a message."""
    temperature: bool | None = None
    """False: the host refuses the field."""
    default_max_output_tokens: Tokens | None = None
    """For hosts that demand a limit."""
    reasoning_on: dict[str, Any] = {}
    """Fields of a request with which the host's models are asked to think (`reasoning: on`). Left out: as the profile
    or the dialect has it."""
    reasoning_off: dict[str, Any] = {}
    """The same for not thinking, or as little as the host allows."""
    extra_body: dict[str, Any] = {}
    """Constant fields of every request, on top of those of the profile: `{temperature: 0}`, a grammar, a service
    tier."""


class HostCapabilities(Section, frozen=True, kw_only=True):
    """`providers.<name>.capabilities`: what the host can do at all. What is left out is as its profile says; a model's
    own entry in the catalogue wins."""

    tools: bool | None = None
    """It takes tools in its own way."""
    images: bool | None = None
    """It takes images."""
    reasoning: bool | None = None
    """Its models may think before they answer."""


class Provider(Section, frozen=True, kw_only=True):
    """`providers.<name>`: a host that answers in one dialect."""

    dialect: str = ""
    """The wire format it speaks (`openai-chat`, ...). Empty: that of its profile, else `openai-chat`."""
    base_url: str = ""
    """Where its API begins; the dialect's own path is added. Empty: the provider's own endpoint."""
    api_key_env: str = ""
    """The environment variable that holds its key. Keys themselves never stand in a file."""
    headers: dict[str, str] = {}
    """Further request headers."""
    profile: str = ""
    """The host profile whose quirks apply. Empty: the one of the provider's name."""
    auth: AuthStyle | None = None
    """How the key is shown. Left out: as the profile says, else `bearer`."""
    query: dict[str, str] = {}
    """Added to the address of every request (`api-version`)."""
    quirks: HostQuirks = HostQuirks()
    capabilities: HostCapabilities = HostCapabilities()
    allow_unknown_models: bool | None = None
    """Whether models may be used that the catalogue does not know. Null: only at hosts whose models nobody can list
    (your own servers and addresses, Azure, Together, Fireworks)."""
    stream: Literal["auto", "always", "never"] = "auto"
    """Whether replies are asked for as streams. `auto`: yes, until a probe or a failed stream shows otherwise."""
    tool_dialects: tuple[ToolDialect, ...] = ()
    """How its models call tools, where it differs from `tools.dialects`."""


class Breaker(Section, frozen=True, kw_only=True):
    """`providers.routing.circuit`: when a route that fails is given a rest, in which it is asked nothing."""

    failures: Annotated[int, msgspec.Meta(gt=0)] = 3
    """So many failures within the window open the circuit."""
    window_s: Seconds = 600.0
    """How long a failure counts."""
    open_s: Seconds = 900.0
    """How long the rest lasts; then there is one trial."""


class Alerts(Section, frozen=True, kw_only=True):
    """`providers.routing.alerts`: what is worth a fact of its own, and `turnwright health --check` fails for."""

    pages_per_minute: int = 2
    """More pages of HTML in place of answers than this."""
    stall_s: Seconds = 30.0
    """A longer silence in the middle of a reply."""
    open_s: Seconds = 900.0
    """A circuit that has been open for longer, its rests and failed trials together."""


class Routing(Section, frozen=True, kw_only=True):
    """`providers.routing`: where a step goes when its route fails."""

    fallback: tuple[str, ...] = ()
    """Models, as `provider/model`, in the order in which they are tried. None is ever used that is not listed."""
    probe_at_start: bool = False
    """Probe the route before a run, if nothing is known of it or what is known is older than six hours."""
    circuit: Breaker = Breaker()
    alerts: Alerts = Alerts()


class Providers(Section, frozen=True, kw_only=True):
    """`providers`: every other key of this section is the name of a provider."""

    rest: ClassVar[str] = "named"

    default: str = ""
    """The provider of a model name that does not begin with one."""
    routing: Routing = Routing()
    named: dict[str, Provider] = {}


class TurnStrategy(Section, frozen=True, kw_only=True):
    """`loop.turn_strategy`: how a reply is acted upon."""

    allow_multiple_per_turn: bool = True
    """Whether one reply may make several calls. Off: the first is executed, and the others are answered with that. It
    is `guards.tool_budget` that sees to it."""


class Loop(Section, frozen=True, kw_only=True):
    """`loop`: how a turn is carried on, and where it ends."""

    sequence: tuple[str, ...] = ()
    """The modes that a turn goes through, as `[plan, build]`. A mode is over once the model answers without a call, or
    after `plan_turn_limit` steps. `--mode` names one in place of them. Empty: `build` alone."""
    plan_turn_limit: Annotated[int, msgspec.Meta(gt=0)] = 8
    """After so many completed steps in a mode that another one follows, that one begins."""
    turn_strategy: TurnStrategy = TurnStrategy()
    task_class: Literal["auto", "analysis", "action", "other"] = "auto"
    """What requests are about, which decides how long `guards.progress` lets a turn look. `auto`: told from the words
    of each request."""
    limits: Limits = Limits()
    retry: Retry = Retry()
    compaction: Compaction = Compaction()
    dispatch: Dispatch = Dispatch()


class Timers(Section, frozen=True, kw_only=True):
    """`timers`: how long an attempt waits on the wire, in seconds."""

    connect_s: Seconds = 10.0
    """Until a connection stands."""
    first_byte_s: Seconds = 60.0
    """From the request to the first part of the reply."""
    gap_s: Seconds = 120.0
    """Between two parts. Keep-alive comments, pings and empty deltas do not count as parts."""
    total_s: Seconds = 600.0
    """For the whole reply."""


class ModelPrice(Section, frozen=True, kw_only=True):
    """`catalogue.models.<name>.price`: USD per million tokens; what is left out is unknown, never free."""

    input: Usd | None = None
    """The prompt."""
    output: Usd | None = None
    """The reply, reasoning included."""
    cache_read: Usd | None = None
    """The share of the prompt that came from the provider's cache."""
    cache_write: Usd | None = None
    """The share of the prompt that was put into it."""


class ModelEntry(Section, frozen=True, kw_only=True):
    """`catalogue.models.<name>`: what is known of a model."""

    price: ModelPrice = ModelPrice()
    window: Tokens | None = None
    """Tokens that fit into one request and its reply."""
    max_output: Tokens | None = None
    """The longest reply it gives, in tokens."""
    tools: bool | None = None
    """Whether it calls tools in its provider's own way."""
    images: bool | None = None
    """Whether it sees images."""
    reasoning: bool | None = None
    """Whether it thinks before it answers."""
    reasoning_field: ReasoningField | None = None
    """Under which key its reasoning goes back to it (`openai-chat` alone)."""


class Catalogue(Section, frozen=True, kw_only=True):
    """`catalogue`: corrections and additions to what is known of models."""

    models: dict[str, ModelEntry] = {}


class ToolSettings(Section, frozen=True, kw_only=True):
    """`tools`: what the model may do."""

    include: tuple[str, ...] | None = None
    """Only these tools are offered; of MCP servers' tools also patterns: `mcp__tracker__*`. Left out: all of them."""
    dialects: tuple[ToolDialect, ...] = ()
    """How models call tools: `native`, or as text that they write: `xml-json`, `bash-block`, `search-replace`,
    `unified-diff`, `apply-patch`, `pythonic`, one or several together. Empty: as the provider's profile says."""


class ModeSettings(Section, frozen=True, kw_only=True):
    """`modes.<name>`: a mode of your own, or what is to be different in `plan`, `build` or `compact`."""

    prompt: str | None = None
    """What the model is told in it. Left out: the text of `prompts.mode`."""
    tools: tuple[str, ...] | None = None
    """Only these tools, as names or patterns (`git_*`), are offered. Empty: no tool at all. Left out: all of these
    effects."""
    effects: tuple[Effect, ...] | None = None
    """Only tools that do no more than this: `reads`, `writes`, `runs`, `asks`. Left out: `reads` in `plan`, everything
    in other modes."""


class Prompts(Section, frozen=True, kw_only=True):
    """`prompts`: what the model is told before the conversation."""

    packs: dict[str, dict[str, str]] = {}
    """Prompts for modes, as `packs.<pack>.<mode>`. Two come with Turnwright: `plain`, and `skeleton-early`, which plans
    and builds the smallest thing that runs from end to end first, and fills it in afterwards."""
    mode: str = "plain"
    """The pack from which modes have their prompts. What it does not say is as in `plain`."""
    tool_prompt_mode: Literal["system_once", "per_turn_append"] = "system_once"
    """Where a mode and its tools are explained. `system_once`: in the system prompt. `per_turn_append`: at the end of
    the conversation, when a turn begins and when the mode changes; models that write their calls as text are shown how
    with every request."""
    instructions_max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 32 * 1024
    """How much of the instruction files (AGENTS.md, or CLAUDE.md) the model is shown, all of them together. 0: none."""
    append: str = ""
    """Further instructions, after all others."""


class TierSettings(Section, frozen=True, kw_only=True):
    """`tiers`: models for easy, usual and hard requests. With at least one of them named, each message of the user is
    given to one, by what it says; what happens in the run moves it up and down. A model that is named for one run
    (`--model`) answers alone."""

    light: str = ""
    """For short questions and small changes, as `provider/model`. Empty: `model`."""
    coder: str = ""
    """For usual work. Empty: `model`."""
    reasoner: str = ""
    """For what is hard, or did not work out. Empty: `model`."""
    force: Literal["", "light", "coder", "reasoner"] = ""
    """This tier for every message. The fifth message in a row that is forced to the reasoner is answered with a
    warning."""
    escalate_at: Annotated[int, msgspec.Meta(gt=0)] = 2
    """So many failed commands, or calls that could not be executed, and the next tier is taken. One guard that trips is
    enough."""
    calm_steps: Annotated[int, msgspec.Meta(gt=0)] = 3
    """After so many steps without any of that, a tier that was left is taken again."""


class HostSettings(Section, frozen=True, kw_only=True):
    """`host`: the process that runs a turn, as your other processes reach it."""

    answer_wait_s: Seconds = 3600.0
    """How long a question waits for `turnwright answer` where the turn runs in the background. Then nobody has
    answered, which is a denial."""


class JournalSettings(Section, frozen=True, kw_only=True):
    """`journal`: where facts are kept."""

    url: str = ""
    """A PostgreSQL database, as `postgresql://user@host:port/name`, shared by every process that names it. The password
    belongs into `PGPASSWORD` or `~/.pgpass`. Empty: a file in the data folder."""


class SubagentSettings(Section, frozen=True, kw_only=True):
    """`subagents`: conversations that the model sends out with the `task` tool."""

    depth: Annotated[int, msgspec.Meta(ge=0)] = 2
    """How deep they go: 1 is a subagent, 2 also a subagent's own. 0: the model is not offered `task`."""
    at_once: Annotated[int, msgspec.Meta(gt=0)] = 4
    """So many of one conversation run side by side; others wait."""
    per_conversation: Annotated[int, msgspec.Meta(ge=0)] = 50
    """So many may one conversation send, ever."""
    model: str = ""
    """Their model. Empty: the one of the conversation that sends them."""
    max_steps: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """Steps that each may take, unless it is sent with fewer. Empty: as `loop.limits.max_steps`."""


class VersionSettings(Section, frozen=True, kw_only=True):
    """`versions`: the workspace before and after each step that changes it, for `turnwright undo` and `diff`."""

    enabled: bool = True
    """Off: nothing is saved, and nothing can be taken back."""
    ignore: tuple[str, ...] = (
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".DS_Store",
    )
    """Names, or patterns for names, that are neither saved nor put back, wherever they are. A repository's own data
    (`.git`) must stay among them: undoing never touches its index, branches or stashes."""
    file_bytes_max: int = 100 * 1024 * 1024
    """A larger file is not saved: that it changed is seen, and undoing says that it cannot put it back."""
    bytes_max: int = 4 * 1024 * 1024 * 1024
    """What all versions of all workspaces may take, compressed. Beyond it the oldest are let go."""
    patience_s: Seconds = 20.0
    """How long the first change of a turn waits for what was there before to be saved."""


class MachineSettings(Section, frozen=True, kw_only=True):
    """`machine`: where commands run, and what they can reach from there."""

    ssh: str = ""
    """`HOST:FOLDER` where the workspace is on another computer, with a host as ssh knows it. Empty or `local`: here."""
    sandbox: SandboxLevel = "workspace-write"
    """`read-only`: commands change nothing but temporary files. `workspace-write`: the workspace too, but for files in
    it that make other programs run code. `off`: they have your own rights, which is said at every turn."""
    require_sandbox: bool = False
    """Refuse to run with less than everything: another tier than namespaces, or one that lacks a protection."""
    network: NetworkReach = "off"
    """`off`: none but their own. `hosts`: those of `machine.hosts`, through a proxy. `open`: all of it."""
    hosts: tuple[str, ...] = ()
    """What commands may reach where the network is `hosts`: `example.org`, or `*.example.org` for the names below."""
    write: tuple[str, ...] = ()
    """Folders besides the workspace in which commands may write."""


class Logging(Section, frozen=True, kw_only=True):
    """`logging`: what is said on stderr while a turn runs."""

    level: Literal["error", "warning", "info", "debug"] = "info"
    """The least important line that is still shown. `info` has one line per step and tool."""
    file: str = ""
    """A file that receives the same lines with their times. Empty: none."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole tree."""

    model: str = ""
    """`provider/model`, or a model of `providers.default`."""
    reasoning: Literal["auto", "on", "off"] = "auto"
    """Whether models are asked to think before they answer. `auto`: as each does by itself, or as its tier says, where
    it is known that it can think."""
    tiers: TierSettings = TierSettings()
    providers: Providers = Providers()
    loop: Loop = Loop()
    timers: Timers = Timers()
    catalogue: Catalogue = Catalogue()
    tools: ToolSettings = ToolSettings()
    mcp: Mcp = Mcp()
    prompts: Prompts = Prompts()
    modes: dict[str, ModeSettings] = {}
    guards: Guards = Guards()
    completion: Completion = Completion()
    host: HostSettings = HostSettings()
    journal: JournalSettings = JournalSettings()
    versions: VersionSettings = VersionSettings()
    subagents: SubagentSettings = SubagentSettings()
    permissions: Permissions = Permissions()
    machine: MachineSettings = MachineSettings()
    logging: Logging = Logging()
    capture: Literal["failures", "all", "off"] = "failures"
    """Which attempts keep their bytes."""


def answered_by(settings: Settings, model: str) -> Settings:
    """This model alone, whatever tiers are configured: it was named."""
    return msgspec.structs.replace(settings, model=model, tiers=TierSettings())
