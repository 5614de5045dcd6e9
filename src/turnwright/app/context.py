"""What a model is told before the conversation itself: sections in a stable order, nothing volatile among them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import assert_never

import msgspec

from turnwright.kernel.ports import Conversation
from turnwright.schema.prompt import Prompt, Section, ToolSpec
from turnwright.schema.sandbox import Confinement

ROLE = """You are Turnwright, a coding agent. You are given a task in a workspace and you do it: you look, you change \
files, you run and test what you changed, until the task is done.
- Look before you change: read a file before you edit it, and find out how the project is built and tested.
- Make the smallest change that does the whole task, in the style of the code around it.
- After a change, run what shows that it works, and read the output.
- Never claim what you have not seen. If something failed or could not be tried, say so.
- When the task is done, answer in a few plain sentences without calling a tool: what was changed and how it was shown \
to work."""

SUBAGENT = """You are a subagent: another agent has sent you with a brief, and waits. It sees nothing of what you do \
and reads only your last message.
- Do what the brief says, and no more than that.
- End with a message that stands by itself: what you found or changed, with exact paths and names, how it was shown to \
work, and what you left open."""


def system_sections(
    workspace: str,
    mode_prompt: str,
    confinement: Confinement,
    instructions: str = "",
    appended: str = "",
    completion: str = "",
    skills: str = "",
    *,
    sent: bool = False,
) -> tuple[Section, ...]:
    """In an order that never changes: whoever caches a prompt caches it from its start. Empty ones are left out."""
    sections = (
        Section("role", ROLE),
        Section("subagent", SUBAGENT if sent else ""),
        Section("environment", f"The workspace is {workspace}. Paths are relative to it. {_told(confinement)}"),
        Section("mode", mode_prompt),
        Section("completion", completion),
        Section("skills", skills),
        Section("instructions", instructions),
        Section("appended", appended),
    )
    return tuple(section for section in sections if section.text)


def _told(confinement: Confinement) -> str:
    """What commands can do, for whoever writes them: no less than holds, and no more than is useful."""
    match confinement.level:
        case "off":
            return "Commands run with the user's own rights: there is no sandbox."
        case "read-only":
            writing = (
                "They can write to /tmp alone" if confinement.tier == "namespaces" else "They can write to $TMPDIR"
            )
        case "workspace-write":
            place = "/tmp" if confinement.tier == "namespaces" else "$TMPDIR"
            writing = (
                f"They can write in the workspace and to {place}, but not to .git/hooks, .git/config, .turnwright, "
                ".mcp.json, shell start-up files and CI configuration"
            )
        case _:
            assert_never(confinement.level)
    return f"Commands run in a sandbox ({confinement.tier}). {writing}. {_NETWORK[confinement.network]}"


_NETWORK = {
    "off": "They have no network but their own loopback.",
    "hosts": "They reach a list of hosts through the proxy in HTTPS_PROXY, and nothing else.",
    "open": "They have the network.",
}


class PromptContext:
    """`kernel.ports.Context`: sections are made once per mode and stay the same objects, so their bytes and hashes are
    computed once. `condensed` is called when the history that is shown is no longer the one that was. With `apart` a
    mode is explained in the conversation, where it begins."""

    def __init__(
        self,
        *,
        workspace: str,
        confinement: Confinement,
        mode_prompts: Mapping[str, str] = MappingProxyType({}),
        apart: bool = False,
        completion: str = "",
        instructions: str = "",
        appended: str = "",
        skills: str = "",
        sent: bool = False,
        condensed: Callable[[], object] = lambda: None,
        max_output_tokens: int | None = None,
        temperature: float | None = None,
        json_object: bool = False,
    ) -> None:
        self._workspace = workspace
        self._confinement = confinement
        self._mode_prompts = mode_prompts
        self._apart = apart
        self._completion = completion
        self._instructions = instructions
        self._appended = appended
        self._skills = skills
        self._sent = sent
        self._condensed = condensed
        self._lineage = ""
        self._max_output_tokens = max_output_tokens
        self._temperature = temperature
        self._json_object = json_object
        self._sections: dict[str, tuple[Section, ...]] = {}
        self._hashed: tuple[tuple[Section, ...], tuple[ToolSpec, ...]] = ((), ())
        self._segments: dict[str, str] = {}
        self._prefix_chars = 0

    async def prompt(self, history: Conversation, tools: tuple[ToolSpec, ...], mode: str) -> Prompt:
        if mode not in self._sections:
            self._sections[mode] = system_sections(
                self._workspace,
                "" if self._apart else self._mode_prompts.get(mode, ""),
                self._confinement,
                self._instructions,
                self._appended,
                self._completion,
                self._skills,
                sent=self._sent,
            )
        if history.lineage != self._lineage:
            self._lineage = history.lineage
            self._condensed()
        return Prompt(
            lineage=history.lineage,
            system=self._sections[mode],
            messages=history.messages,
            tools=tools,
            max_output_tokens=self._max_output_tokens,
            temperature=self._temperature,
            json_object=self._json_object,
            tools_behind=self._apart,
        )

    def apart(self, tools: tuple[ToolSpec, ...], mode: str) -> str:
        """`prompts.tool_prompt_mode: per_turn_append`."""
        if not self._apart:
            return ""
        offered = f"Tools: {', '.join(tool.name for tool in tools) or 'none'}."
        return "\n".join(text for text in (self._mode_prompts.get(mode, ""), offered) if text)

    def segments(self, prompt: Prompt) -> dict[str, str]:
        """One per section, by name, and one for the tools; the same dict while nothing changes."""
        self._look_at(prompt)
        return self._segments

    def prefix_chars(self, prompt: Prompt) -> int:
        self._look_at(prompt)
        return self._prefix_chars

    def _look_at(self, prompt: Prompt) -> None:
        system, tools = self._hashed
        if prompt.system is system and prompt.tools is tools:
            return
        self._hashed = prompt.system, prompt.tools
        offered = msgspec.json.encode(prompt.tools)
        self._segments = {section.name: hash_of(section.text.encode()) for section in prompt.system}
        self._segments["tools"] = hash_of(offered)
        self._prefix_chars = len(offered) + sum(len(section.text) for section in prompt.system)


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
