"""What the user has agreed to, of what repositories bring (X4). Kept in the state folder, out of their reach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from turnwright.config.folders import Folders, project_root
from turnwright.config.owned_file import OwnedFile
from turnwright.schema.trust import TRUSTED, Entry, Trusted, TrustKind, Untrusted, entry_of


class Agreed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said about one folder: hashes by `Entry.key`."""

    trusted: dict[str, str] = {}
    declined: dict[str, str] = {}
    """Not to be asked about again."""


class TrustStore:
    """One file for all folders of a user. Read when something is found that needs trust, never before."""

    def __init__(self, path: Path) -> None:
        self._file = OwnedFile(
            path,
            dict[str, Agreed],
            "The list of what is trusted",
            "Mend it, or delete it and trust your folders again.",
        )

    def folders(self) -> dict[str, Agreed]:
        return self._file.read()

    def of(self, folder: Path) -> Agreed:
        return self.folders().get(str(folder), Agreed())

    def agree(self, folder: Path, entries: Iterable[Entry]) -> None:
        given = {entry.key: entry.sha256 for entry in entries}
        with self._file.changing() as folders:
            before = folders.get(str(folder), Agreed())
            declined = {key: sha256 for key, sha256 in before.declined.items() if key not in given}
            folders[str(folder)] = Agreed(trusted={**before.trusted, **given}, declined=declined)

    def decline(self, folder: Path, entries: Iterable[Entry]) -> None:
        given = {entry.key: entry.sha256 for entry in entries}
        with self._file.changing() as folders:
            before = folders.get(str(folder), Agreed())
            folders[str(folder)] = Agreed(trusted=before.trusted, declined={**before.declined, **given})

    def revoke(self, folder: Path) -> bool:
        """Whether there was anything to take back."""
        with self._file.changing() as folders:
            return folders.pop(str(folder), None) is not None


class Trust:
    """What may be used in one folder."""

    def __init__(self, folder: Path, store: TrustStore, *, everything: bool = False) -> None:
        """`everything`: whoever started us vouches for the folder as it is."""
        self.folder = folder
        self.store = store
        self._everything = everything
        self._agreed: Agreed | None = None

    def decide(self, kind: TrustKind, name: str, content: bytes) -> Trusted | Untrusted:
        """`name` as `name_of` gives it, or that of an MCP server; `content` all that decides what it does."""
        if self._everything:
            return TRUSTED
        return judged(self.agreed, entry_of(kind, name, content), self.folder)

    @property
    def agreed(self) -> Agreed:
        if self._agreed is None:
            self._agreed = self.store.of(self.folder)
        return self._agreed

    def at(self, workspace: Path) -> Trust:
        """The same user's, for the folder that another workspace lies in."""
        return Trust(project_root(workspace.resolve()), self.store, everything=self._everything)

    def name_of(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else str(path)


def judged(agreed: Agreed, entry: Entry, folder: Path) -> Trusted | Untrusted:
    before = agreed.trusted.get(entry.key)
    if before == entry.sha256:
        return TRUSTED
    why = "you have not trusted it" if before is None else "it has changed since you trusted it"
    return Untrusted(entry=entry, why=why, remedy=f"`turnwright trust {folder}` shows it and allows it.")


def trust_in(workspace: Path, folders: Folders, *, everything: bool = False) -> Trust:
    """For the repository that the workspace lies in, or the workspace alone."""
    return Trust(workspace, TrustStore(folders.trust), everything=everything).at(workspace)
