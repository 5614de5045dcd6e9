"""The commands there are. A name and a line each, so that help costs no import; the module comes when it is called."""

from __future__ import annotations

import importlib
from keyword import iskeyword
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import argparse

COMMANDS: dict[str, str] = {
    "run": "give it a task and watch it being done",
    "demo": "see a whole run without a key or a network",
    "sessions": "list the conversations",
    "search": "find words in conversations",
    "label": "give a conversation a title or tags, put it into the archive",
    "show": "read a conversation",
    "follow": "catch up with a conversation and watch it live",
    "resume": "see what was interrupted, and carry on",
    "steer": "say something to a running turn, after its current tools",
    "queue": "say something that opens the next turn, or list what waits",
    "withdraw": "take back what was said and not delivered yet",
    "answer": "answer a question of a running turn, or list its questions",
    "stop": "stop a running turn, wherever it runs",
    "compact": "condense what lies behind, so that the next turns cost less",
    "replay": "run a recorded conversation again, offline, and find the first difference",
    "fork": "a new conversation that shares the beginning of another, with another model, settings or task",
    "diff": "what changed in the workspace since a point, or two conversations step by step",
    "undo": "put files and conversation back as they were before a step",
    "redo": "take back the last undo of a workspace",
    "trace": "the timeline of a conversation: steps, attempts, tools, times, cost",
    "export": "a conversation for other programs, people or machines: JSON, Markdown, all of it",
    "import": "bring conversations in: exported ones, sessions of Claude Code and codex",
    "health": "how the routes have been: verdicts, times, circuits, alerts",
    "probe": "find out what a route can do: streaming, tools, JSON, usage",
    "storage": "how much is kept of what, conversation by conversation",
    "storage prune": "delete conversations or captures that you name",
    "storage rebuild": "make the index of words anew",
    "journal verify": "check that the journal is what was written",
    "patch apply": "apply a patch the way the tool does",
    "wire sse": "frame server-sent events from a file",
    "wire decode": "read a provider's reply from a file",
    "wire keep": "take the recorded bytes of attempts out of the journal, as tests",
    "wire replay": "play recorded attempts through the codecs again, and compare",
    "wire serve-faults": "a server that misbehaves in every known way, for any client",
    "escalate": "one redacted zip about a failed step, for whoever runs the provider",
    "guards list": "what watches over a turn, so that it ends: thresholds, keys, reasons",
    "guards backtest": "what guards say of conversations that are over, and what they would have saved",
    "mcp list": "the MCP servers of a workspace: whether they start, their tools, what has changed",
    "mcp call": "call one tool of an MCP server yourself",
    "mcp approve": "let changed tools of an MCP server be offered again",
    "models": "what is known of models: prices, windows, abilities",
    "sandbox run": "run a command as the tools would",
    "doctor": "check this machine and say what is missing",
    "permissions check": "what would be decided about a call, and by which rule",
    "permissions backtest": "other rules on conversations that are over: which questions vanish, which denials appear",
    "permissions rules": "the rules that hold here, and what was answered with always",
    "trust": "see what a folder brings of settings and instructions, and allow it",
    "config explain": "every setting, its value and where it came from",
    "schema": "the JSON Schema of facts, live events and settings",
}


class Command(Protocol):
    """What a module under `cli/commands/` offers."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Its options and arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Does it; the exit code."""
        ...


MODULE_NAMES = str.maketrans(" -", "__")


def command(name: str) -> Command:
    words = name.translate(MODULE_NAMES)
    module = importlib.import_module(f"turnwright.cli.commands.{words}{'_' if iskeyword(words) else ''}")
    return cast("Command", module)


def groups() -> dict[str, list[str]]:
    """Commands of two words, by their first."""
    found: dict[str, list[str]] = {}
    for name in COMMANDS:
        first, _, second = name.partition(" ")
        if second:
            found.setdefault(first, []).append(second)
    return found
