"""Commands that only look, unless one of their options makes them do more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from turnwright.session.permissions.paths import paths_in, read
from turnwright.session.permissions.segments import Ground, Kind
from turnwright.session.permissions.syntax import UNKNOWN, Word
from turnwright.session.permissions.words import words_of


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    letters: str = ""
    """Short options that make it do more."""
    options: tuple[str, ...] = ()
    """Long options that do; their abbreviations count."""
    says: bool = False
    """Its words are text or numbers, never files."""
    pattern: bool = False
    """Its first word is a pattern."""
    operands_max: int = 99
    """The word behind these is a file that it writes."""


_PLAIN = Reader()
_SAYS = Reader(says=True)
_GREP = Reader(pattern=True)

READERS = MappingProxyType[str, Reader](
    {
        **dict.fromkeys(
            words_of(
                """
    ls dir cat head tail wc nl tac rev cut tr paste join comm diff cmp cksum md5sum sha1sum
    sha224sum sha256sum sha384sum sha512sum b2sum sum base64 base32 basename dirname realpath
    readlink stat du df pwd od hexdump strings column fold fmt expand unexpand tsort zcat bzcat
    xzcat zgrep md5 shasum vdir pr getfattr lsattr namei
    """
            ),
            _PLAIN,
        ),
        **dict.fromkeys(
            words_of(
                """
    echo true false : seq id whoami uname which type expr sleep printenv nproc uptime free groups
    tty arch getconf locale numfmt factor cd wait return exit break continue shift yes logname ps
    hash umask times pgrep
    """
            ),
            _SAYS,
        ),
        **dict.fromkeys(["grep", "egrep", "fgrep", "jq"], _GREP),
        "printf": Reader(says=True, letters="v"),
        "test": _PLAIN,
        "[": _PLAIN,
        "date": Reader(says=True, letters="sfr", options=("--set", "--file", "--reference")),
        "hostname": Reader(says=True, operands_max=0),
        "sort": Reader(
            letters="oT", options=("--output", "--compress-program", "--temporary-directory", "--files0-from")
        ),
        "uniq": Reader(operands_max=1),
        "xxd": Reader(letters="r", operands_max=1),
        "file": Reader(letters="Cfm", options=("--compile", "--files-from", "--magic-file", "--uncompress")),
        "tree": Reader(letters="oR", options=("--output",)),
        "iconv": Reader(letters="o", options=("--output",)),
        "rg": Reader(
            pattern=True, letters="fz", options=("--pre", "--pre-glob", "--hostname-bin", "--search-zip", "--file")
        ),
        "fd": Reader(pattern=True, letters="xX", options=("--exec", "--exec-batch")),
        "shopt": Reader(says=True, operands_max=0),
        "nm": _PLAIN,
        "size": _PLAIN,
        "objdump": _PLAIN,
        "readelf": _PLAIN,
        "tokei": _PLAIN,
        "cloc": Reader(letters="", options=("--out", "--report-file", "--sql", "--extract-with", "--config")),
        "actionlint": _PLAIN,
        "shellcheck": _PLAIN,
    }
)

VERSIONED = words_of(
    """
    python python3 node npm npx pnpm yarn pip pip3 uv ruff mypy pytest cargo rustc go java javac gcc
    g++ clang clang++ make cmake ruby gem perl php bash zsh docker tsc deno bun swift dotnet gradle
    mvn terraform kubectl helm rg fd jq sed awk tar curl wget git
    """
)
_VERSION = frozenset({"--version", "-V", "-v", "version", "--help", "-h", "help"})

SAFE_VARIABLES = re.compile(r"LC_\w+|LANG|LANGUAGE|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|TERM|CI|[a-z]\w*")
"""What may be set for a command that only looks, and leaves it so."""


def looks(name: str, words: Sequence[Word], ground: Ground, folders: tuple[str, ...]) -> tuple[Kind, str] | None:
    """None where it is no command that only looks."""
    rest = words[1:]
    if name in VERSIONED and len(rest) == 1 and rest[0].text in _VERSION:
        return "reads", ""
    reader = READERS.get(name)
    if reader is None:
        return None
    operands = 0
    for word in rest:
        text = word.text
        if text.startswith("-") and text != "-" and name not in ("echo", "expr", "test", "[", "yes"):
            if option := _does_more(text, reader):
                return "runs", f"{name} with {option} does more than look"
        elif not text.startswith("+"):
            operands += 1
    if operands > reader.operands_max:
        return "runs", f"{name} writes the file that is named last"
    if _hides_code(name, rest):
        return "unparsed", "the shell may run what stands between brackets"
    if reader.says:
        return "reads", ""
    return _files(name, reader, rest, ground, folders)


def _does_more(text: str, reader: Reader) -> str:
    if text.startswith(UNKNOWN):
        return "what cannot be known"
    if text.startswith("--"):
        name = text.partition("=")[0]
        return next((option for option in reader.options if len(name) > 3 and option.startswith(name)), "")
    return next((f"-{letter}" for letter in reader.letters if letter in text[1:]), "")


def _files(
    name: str, reader: Reader, rest: Sequence[Word], ground: Ground, folders: tuple[str, ...]
) -> tuple[Kind, str]:
    rest = tuple(rest)
    if reader.pattern and not any(word.text.startswith(("-e", "--reg", "-f", "--f")) for word in rest):
        place = next((at for at, word in enumerate(rest) if not word.text.startswith("-")), len(rest))
        rest = (*rest[:place], *rest[place + 1 :])
    if name in ("test", "["):
        return "reads", ""
    for word in rest:
        if UNKNOWN in word.text:
            return "runs", f"what {name} is given cannot be known"
        if word.globs and word.text[0] in "*?[" and (reader.letters or reader.options):
            return "runs", "a file's name may be taken for an option"
    for path in paths_in(rest):
        kind, why = read(path, ground, folders)
        if kind != "reads":
            return kind, why
    return "reads", ""


def _hides_code(name: str, rest: Sequence[Word]) -> bool:
    """`test -v 'a[$(command)]'`: the shell's own commands evaluate what looks like a text."""
    if name not in ("test", "[", "printf"):
        return False
    return any("[" in word.text and ("$(" in word.text or "`" in word.text) for word in rest)
