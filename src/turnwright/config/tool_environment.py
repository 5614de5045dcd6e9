"""The environment that commands of the model see: a clean list, never our own (X5)."""

from __future__ import annotations

from collections.abc import Mapping

PASSED = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)
"""Names that build tools need and that hold no secret. Everything else is left out, keys above all."""

FIXED = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat"}
"""Output is read by a model, not by a terminal: no colours, no pagers."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def tool_environment(environ: Mapping[str, str]) -> dict[str, str]:
    passed = {name: value for name, value in environ.items() if name in PASSED or name.startswith("LC_")}
    return {"PATH": DEFAULT_PATH, **passed, **FIXED}
