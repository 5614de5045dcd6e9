"""A workspace that only exists in words."""

from __future__ import annotations

import posixpath

WORKSPACE = "/work/project"


class Lexical:
    """`session.permissions.segments.Ground` without a disk."""

    def inside(self, path: str) -> bool:
        whole = posixpath.normpath(posixpath.join(WORKSPACE, path))
        return not path.startswith("~") and (whole == WORKSPACE or whole.startswith(f"{WORKSPACE}/"))
