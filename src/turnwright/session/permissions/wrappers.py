"""Commands that start another: what they start, so that it is judged and not they."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from turnwright.session.permissions.syntax import UNKNOWN, Word


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """How it is read up to the command: options with and without a value, then `skipped` words of its own."""

    values: str = ""
    flags: str = ""
    long_values: tuple[str, ...] = ()
    long_flags: tuple[str, ...] = ()
    skipped: int = 0
    assigns: bool = False
    """`NAME=VALUE` may stand before the command."""
    grave: bool = False
    """It takes more rights."""
    appends: bool = False
    """It adds words of its own to the command."""
    split: str = ""
    """The option whose value is split into words and stands before the rest."""


class Wrapped(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    assigned: tuple[tuple[str, Word], ...] = ()


class Unreadable(msgspec.Struct, frozen=True):
    why: str


_SUDO = Wrapper(
    values="CDgGhpRrtTuU",
    flags="AbBEeHiKklNnPSsvV",
    long_values=("--user", "--group", "--host", "--prompt", "--chroot", "--chdir", "--close-from", "--command-timeout"),
    long_flags=("--preserve-env", "--login", "--shell", "--stdin", "--non-interactive", "--background", "--set-home"),
    assigns=True,
    grave=True,
)

WRAPPERS = MappingProxyType[str, Wrapper](
    {
        "env": Wrapper(
            values="uC",
            flags="i0v",
            long_values=("--unset", "--chdir"),
            long_flags=("--ignore-environment", "--null", "--debug"),
            assigns=True,
            split="S",
        ),
        "nice": Wrapper(values="n", long_values=("--adjustment",)),
        "nohup": Wrapper(),
        "timeout": Wrapper(
            values="ks",
            flags="fpv",
            long_values=("--kill-after", "--signal"),
            long_flags=("--foreground", "--preserve-status", "--verbose"),
            skipped=1,
        ),
        "gtimeout": Wrapper(values="ks", skipped=1),
        "time": Wrapper(
            values="fo",
            flags="apvV",
            long_values=("--format", "--output"),
            long_flags=("--append", "--portability", "--verbose"),
        ),
        "stdbuf": Wrapper(values="ioe", long_values=("--input", "--output", "--error")),
        "setsid": Wrapper(flags="cfw", long_flags=("--ctty", "--fork", "--wait")),
        "ionice": Wrapper(values="cnpPu", flags="t", long_values=("--class", "--classdata"), long_flags=("--ignore",)),
        "chrt": Wrapper(flags="abdfimorRvp", values="TPD", skipped=1),
        "taskset": Wrapper(flags="ac", skipped=1),
        "xargs": Wrapper(
            values="aEdILnPs",
            flags="0oprtxeil",
            long_values=("--arg-file", "--delimiter", "--replace", "--max-args", "--max-procs", "--max-chars"),
            long_flags=("--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"),
            appends=True,
        ),
        "command": Wrapper(flags="p"),
        "builtin": Wrapper(),
        "exec": Wrapper(flags="cl", values="a"),
        "coproc": Wrapper(),
        "watch": Wrapper(
            values="nq",
            flags="bcdegprtwx",
            long_values=("--interval", "--equexit"),
            long_flags=("--beep", "--color", "--differences", "--errexit", "--chgexit", "--no-title", "--exec"),
        ),
        "flock": Wrapper(values="wE", flags="snuexoF", long_values=("--timeout",), skipped=1),
        "unbuffer": Wrapper(flags="p"),
        "caffeinate": Wrapper(flags="disum", values="tw"),
        "busybox": Wrapper(),
        "toybox": Wrapper(),
        "sudo": _SUDO,
        "doas": Wrapper(values="Cu", flags="Lns", grave=True),
        "pkexec": Wrapper(long_values=("--user",), long_flags=("--disable-internal-agent",), grave=True),
        "runuser": Wrapper(values="ugGw", flags="lmp", long_values=("--user", "--group"), grave=True),
        "chroot": Wrapper(long_values=("--userspec", "--groups"), skipped=1, grave=True),
        "unshare": Wrapper(
            flags="imnpuUCTrfc", values="SGRw", long_flags=("--mount", "--pid", "--net", "--user", "--fork"), grave=True
        ),
        "nsenter": Wrapper(values="tSGrw", flags="amuinpCUTFZe", long_values=("--target",), grave=True),
        "setpriv": Wrapper(long_values=("--reuid", "--regid", "--groups"), long_flags=("--clear-groups",), grave=True),
        "strace": Wrapper(values="eoPsuaIXSE", flags="cCdDfFhiknqrtTvVwxyYzZ"),
        "ltrace": Wrapper(values="eosuaAnlxF", flags="bcCfhirStTV"),
    }
)

RUNNERS = MappingProxyType[str, tuple[str, ...]](
    {
        "uv": ("run",),
        "poetry": ("run",),
        "pipenv": ("run",),
        "hatch": ("run",),
        "rye": ("run",),
        "pdm": ("run",),
        "bundle": ("exec",),
        "npm": ("exec", "x"),
        "pnpm": ("exec",),
        "yarn": ("exec",),
        "direnv": ("exec",),
        "mise": ("exec", "x"),
        "conda": ("run",),
    }
)
"""Tools that run a command in an environment of theirs. They may fetch what is missing, so they are judged too."""


def unwrapped(name: str, words: Sequence[Word]) -> Wrapped | Unreadable | None:
    """What a wrapper starts; None where it starts nothing."""
    wrapper = WRAPPERS[name]
    left = list(words[1:])
    assigned: list[tuple[str, Word]] = []
    replaced = ""
    while left:
        text = left[0].text
        if text == "--":
            left.pop(0)
            break
        if wrapper.split and text.startswith((f"-{wrapper.split}", "--split-string")):
            return _split(text, left, wrapper)
        if not text.startswith("-") or text == "-":
            break
        optional = name == "xargs" and text[1] in "iel" and not text.startswith("--")
        taken = 0 if optional else _option(text, wrapper)
        if taken is None:
            return Unreadable(f"the option {text.replace(UNKNOWN, '…')} of {name} is not known")
        if name == "xargs" and text.startswith(("-I", "-i", "--replace")):
            replaced = _replacement(text, left)
        del left[: 1 + taken]
    while wrapper.assigns and left and "=" in left[0].text and not left[0].text.startswith("="):
        variable, _, value = left.pop(0).text.partition("=")
        assigned.append((variable, Word(value)))
    del left[: wrapper.skipped]
    if not left:
        return None
    if replaced:
        left = [Word(word.text.replace(replaced, UNKNOWN), word.globs) for word in left]
    elif wrapper.appends:
        left.append(Word(UNKNOWN))
    return Wrapped(words=tuple(left), assigned=tuple(assigned))


def _option(text: str, wrapper: Wrapper) -> int | None:
    """How many words behind it belong to it; None where it is not known."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if any(known.startswith(name) for known in wrapper.long_values):
            return 0 if equals or name == "--replace" else 1
        return 0 if any(known.startswith(name) for known in wrapper.long_flags) else None
    if text[1:].isdecimal() and wrapper.values.startswith("n"):
        return 0  # nice -10
    for place, letter in enumerate(text[1:], 1):
        if letter in wrapper.values:
            return 0 if place < len(text) - 1 else 1
        if letter not in wrapper.flags:
            return None
    return 0


def _split(text: str, left: list[Word], wrapper: Wrapper) -> Wrapped | Unreadable:
    import shlex

    if text.startswith("--"):
        said, behind = (
            (text.partition("=")[2], left[1:]) if "=" in text else (left[1].text if left[1:] else "", left[2:])
        )
    else:
        attached = text.partition(wrapper.split)[2]
        said, behind = (attached, left[1:]) if attached else (left[1].text if left[1:] else "", left[2:])
    try:
        first = [Word(each) for each in shlex.split(said)]
    except ValueError:
        return Unreadable("its string cannot be split")
    if not first:
        return Unreadable("its string is empty")
    return Wrapped(words=(Word("env"), *first, *behind))


def _replacement(text: str, left: list[Word]) -> str:
    if text.startswith("--replace"):
        return text.partition("=")[2] or "{}"
    if text.startswith("-i"):
        return text[2:] or "{}"
    return text[2:] or (left[1].text if left[1:] else "{}")
