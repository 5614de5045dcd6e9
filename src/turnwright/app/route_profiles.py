"""What probes have shown of each route, with evidence and an end: hosts change (P14)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.ids import ConversationId

VALID_S = 6 * 3600.0

Shown: TypeAlias = Literal["works", "fails", "unknown"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One capability, and the conversation in which it was seen."""

    shown: Shown
    evidence: str
    conversation_id: ConversationId = ""


class RouteProfile(msgspec.Struct, frozen=True, kw_only=True):
    route: str
    probed_at_s: float
    findings: dict[str, Finding]

    def expires_at_s(self) -> float:
        return self.probed_at_s + VALID_S


class RouteProfiles:
    """A file of profiles. One that cannot be read holds nothing; one that cannot be written raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, RouteProfile]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, RouteProfile])
        except (OSError, msgspec.DecodeError):
            return {}

    def put(self, profile: RouteProfile) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.format(msgspec.json.encode({**self.all(), profile.route: profile})))
        draft.replace(self._path)

    def streams(self, route: str, now_s: float) -> bool | None:
        """Proven or disproven together with tools; None where nobody knows any more."""
        profile = self.all().get(route)
        if profile is None or now_s > profile.expires_at_s():
            return None
        finding = profile.findings.get("streamed_tool_call")
        match finding.shown if finding else "unknown":
            case "works":
                return True
            case "fails":
                return False
            case _:
                return None
