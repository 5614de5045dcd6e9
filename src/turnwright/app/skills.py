"""Skills: folders with a SKILL.md that says in a line what it is good for, and more when it is used (C1).

The model is shown names and descriptions; the body comes as the result of the tool `skill`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from turnwright.config.trust import Trust
from turnwright.machine.beneath import OPEN_FOLDER
from turnwright.machine.files import Files, Folder, Forbidden
from turnwright.machine.port import OutsideWorkspace
from turnwright.schema.errors import ToolFailure
from turnwright.schema.trust import Untrusted

FOLDERS = (".turnwright/skills", ".agents/skills", ".claude/skills")
"""Below the workspace, besides `skills` below the user's folder. Of two with one name the first is used."""
FILE = "SKILL.md"
FILE_BYTES_MAX = 64 * 1024
SKILLS_MAX = 100
DESCRIPTION_CHARS_MAX = 500


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    body: str
    folder: str
    """As the model may name it; empty where no tool of it reaches there."""


class Skills(msgspec.Struct, frozen=True, kw_only=True):
    found: tuple[Skill, ...] = ()
    skipped: tuple[str, ...] = ()
    """What was there and could not be used, each with its reason."""
    untrusted: tuple[Untrusted, ...] = ()

    @property
    def section(self) -> str:
        """What the model is told of them before it uses one."""
        if not self.found:
            return ""
        lines = [f"- {one.name}: {one.description}" for one in self.found]
        return "\n".join(["There are skills: read one with the tool `skill` when its description fits.", *lines])


class _Head(msgspec.Struct):
    name: str = ""
    description: str = ""


def skills_for(workspace: Path | None, user_folder: Path, trust: Trust, *, forbidden: Forbidden = frozenset) -> Skills:
    """Without a workspace that is on this computer, the user's own alone."""
    found: dict[str, Skill] = {}
    skipped: list[str | Untrusted] = []
    places: list[tuple[Path, str, Trust | None]] = [(user_folder, "skills", None)]
    if workspace is not None:
        places += ((workspace.resolve(), folder, trust) for folder in FOLDERS)
    for root, folder, asked in places:
        for one in _in(root, folder, asked, forbidden, skipped.append):
            found.setdefault(one.name, one)
    kept = sorted(found.values(), key=lambda one: one.name)[:SKILLS_MAX]
    return Skills(
        found=tuple(kept),
        skipped=tuple(one for one in skipped if isinstance(one, str)),
        untrusted=tuple(one for one in skipped if isinstance(one, Untrusted)),
    )


def skill_tool(skills: Sequence[Skill]) -> Callable[..., Any]:
    from turnwright.tools.registry import tool

    known = {one.name: one for one in skills}

    @tool(effect="reads", timeout_s=5)
    async def skill(name: str) -> str:
        """Read the instructions of a skill before you do what it is for.

        Args:
            name: As the list of skills has it.
        """
        if name not in known:
            raise ToolFailure(f"There is no skill {name!r}.", remedy=f"There are: {', '.join(known)}.")
        one = known[name]
        where = f"Its files are in {one.folder}.\n\n" if one.folder else ""
        return where + one.body

    return skill


def _in(
    root: Path, folder: str, trust: Trust | None, forbidden: Forbidden, skip: Callable[[str | Untrusted], object]
) -> Iterator[Skill]:
    """Opened beneath the root: a link that leads out of it would show a provider somebody else's files. `trust`: None
    for the user's own."""
    if not (root / folder).is_dir():
        return
    root_fd = os.open(root, OPEN_FOLDER)
    try:
        files = Files((Folder(fd=root_fd, names=(str(root),), writable=False),), forbidden)
        for name in sorted(each.name for each in (root / folder).iterdir())[:SKILLS_MAX]:
            place = f"{folder}/{name}"
            try:
                data = files.read(f"{place}/{FILE}", 0, FILE_BYTES_MAX).data
            except FileNotFoundError:
                continue
            except OutsideWorkspace:
                skip(f"{place}/{FILE}: the link leads out of the project")
                continue
            except OSError as closed:
                skip(f"{place}/{FILE}: {closed.strerror}")
                continue
            if trust is not None:
                judged = trust.decide("skill", trust.name_of(root / place / FILE), data)
                if isinstance(judged, Untrusted):
                    skip(judged)
                    continue
            read = _read(data.decode("utf-8-sig", "replace"), name, "" if trust is None else place)
            if isinstance(read, str):
                skip(f"{place}/{FILE}: {read}")
            else:
                yield read
    finally:
        os.close(root_fd)


def _read(text: str, name: str, folder: str) -> Skill | str:
    """Or why it is none."""
    import yaml

    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        return "it does not begin with a head between two lines of ---"
    try:
        head = msgspec.convert(yaml.safe_load(parts[1]) or {}, _Head)
    except (yaml.YAMLError, msgspec.ValidationError) as bad:
        return f"its head cannot be read: {' '.join(str(bad).split())}"
    if not head.description.strip():
        return "it has no description"
    description = " ".join(head.description.split())[:DESCRIPTION_CHARS_MAX]
    return Skill(name=head.name or name, description=description, body=parts[2].strip(), folder=folder)
