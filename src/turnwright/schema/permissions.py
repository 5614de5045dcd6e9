"""What a call may do without asking: rules of the user, and how much is left to the runtime (X3)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

Action: TypeAlias = Literal["allow", "ask", "deny"]
Autonomy: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=4)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`*` stands for anything; a ` *` at the end also for nothing. All else is meant literally."""

    tool: str = "*"
    pattern: str = "*"
    """What it would do: of `bash` each command of the line, of tools for files the path, of others their arguments."""
    action: Action

    def __str__(self) -> str:
        return f"{self.action} {self.tool} {self.pattern}"


class RuleLayer(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one place. Of those that match, the last wins; a later layer goes before an earlier one."""

    name: str
    """`user`, `workspace` (what was answered with always), `project`, `file`, `environment`, `flag`, `program`."""
    rules: tuple[Rule, ...]
    where: str = ""
    narrows: bool = False
    """It came with a repository: it may forbid and ask, and never allow."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`permissions`: what the model may do without asking."""

    autonomy: Autonomy = 2
    """0: look. 1: also change files of the workspace. 2: also run commands, where a sandbox of rank 2 or more holds
    them; elsewhere they ask. 3: also commit, and reach the machines of `hosts`. 4: everything that no rule asks for or
    denies."""
    rules: tuple[Rule, ...] = ()
    """`{tool: bash, pattern: "git push*", action: ask}`: `allow`, `ask` or `deny`. The last that matches wins. A
    project's own can only make things stricter."""
    hosts: tuple[str, ...] = ()
    """Machines that commands may reach from autonomy 3 on. `*.example.com` stands for those below."""
