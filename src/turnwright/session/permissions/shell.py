"""A shell line as segments, each to be judged by itself: also what is wrapped, substituted, or hidden in an option."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from turnwright.session.permissions import programs
from turnwright.session.permissions.effects import effect
from turnwright.session.permissions.git import Started, git_segments
from turnwright.session.permissions.paths import read, written
from turnwright.session.permissions.readers import SAFE_VARIABLES, looks
from turnwright.session.permissions.segments import Ground, Kind, Segment, segment, text_of
from turnwright.session.permissions.syntax import (
    UNKNOWN,
    Assignment,
    Function,
    Opaque,
    Piece,
    Redirect,
    Simple,
    Word,
    pieces_of,
)
from turnwright.session.permissions.wrappers import RUNNERS, WRAPPERS, Unreadable, unwrapped

NESTED_MAX = 8
SEGMENTS_MAX = 500
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})
SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"})
EVALUATES = frozenset({"eval", "trap"})
STARTERS = {
    "tar": (
        "--to-command",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
        "-I",
        "-F",
    ),
    "rsync": ("--rsh", "--rsync-path", "-e"),
    "ssh": (),
    "scp": ("-S",),
    "sftp": ("-S",),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("--compress-program",),
    "zip": ("-TT", "--unzip-command"),
    "man": ("--pager", "--html", "-P", "-H"),
    "script": ("--command", "-c"),
    "su": ("--command", "-c"),
    "watch": (),
    "split": ("--filter",),
    "mail": ("-S",),
    "cmake": (),
    "less": (),
}
"""Options whose value is a command, a line for a shell."""


def segments_of(line: str, ground: Ground) -> list[Segment]:
    """In the order in which they stand. Never empty, never raises."""
    found: list[Segment] = []
    for each in _Line(pieces_of(line), ground, 0).segments():
        if each not in found:
            found.append(each)
        if len(found) > SEGMENTS_MAX:
            return [Segment(text=line[:200], kind="unparsed", why="it has too many parts")]
    return found or [Segment(text=line, kind="reads", why="it starts nothing")]


class _Line:
    """What is known of a whole line, and bears on each piece of it."""

    def __init__(self, pieces: Sequence[Piece], ground: Ground, depth: int) -> None:
        self._pieces = pieces
        self._depth = depth
        self._functions = {piece.name for piece in pieces if isinstance(piece, Function)}
        self._tampered = next((why for piece in pieces if (why := _tampers(piece))), "")
        folders = [
            piece.words for piece in pieces if isinstance(piece, Simple) and _name(piece) in ("cd", "pushd", "popd")
        ]
        self._folders = tuple(words[1].text for words in folders if len(words) > 1)
        strays = any(len(words) != 2 or not words[1].known or not _stays(words[1].text, ground) for words in folders)
        self._ground: Ground = _Astray() if strays else _Moved(ground) if folders else ground

    def segments(self) -> Iterator[Segment]:
        for piece in self._pieces:
            match piece:
                case Simple():
                    yield from self._simple(piece)
                case Redirect():
                    yield from self._redirect(piece)
                case Assignment():
                    yield from _assignment(piece)
                case Function():
                    if piece.calls_itself:
                        yield Segment(
                            text=f"{piece.name}()", kind="grave", why="a function that calls itself may never end"
                        )
                case Opaque():
                    yield Segment(text=piece.text, kind="unparsed", why=piece.why)

    def _redirect(self, piece: Redirect) -> Iterator[Segment]:
        judge = written if piece.writes else read
        path = piece.path.text if not piece.path.globs else UNKNOWN
        kind, why = judge(path, self._ground, self._folders)
        if kind != "reads":
            yield Segment(text=f"{'>' if piece.writes else '<'} {piece.path.text}", kind=kind, why=why)

    def _simple(self, simple: Simple) -> Iterator[Segment]:
        if not simple.words:
            return
        first = simple.words[0]
        if not first.known or not first.text:
            yield segment(simple, "runs", "which command it is cannot be known")
            return
        name = _name(simple)
        if name != first.text and name:
            simple = _renamed(simple, name)
        if simple.assigned and any(not SAFE_VARIABLES.fullmatch(variable) for variable, _ in simple.assigned):
            variables = ", ".join(variable for variable, _ in simple.assigned)
            inner = [*self._named(simple, name)]
            yield from (_lifted(each, f"it sets {variables} for the command") for each in inner)
        else:
            yield from self._named(simple, name)

    def _named(self, simple: Simple, name: str) -> Iterator[Segment]:
        words = simple.words
        if name in WRAPPERS and name not in self._functions:
            yield from self._wrapped(simple, name)
        elif name in SHELLS:
            yield from self._shell(simple)
        elif name in EVALUATES:
            yield from self._evaluated(simple, name)
        elif name == "git":
            elsewhere = "it works in another folder, where another repository's settings may start programs"
            for found in git_segments(words, text_of(words), self._ground):
                if isinstance(found, Started):
                    yield from self._started(found)
                else:
                    yield _lifted(found, elsewhere) if self._folders else found
        elif name in ("find", "gfind", "bfs"):
            yield from self._program(simple, programs.find(words))
        elif name in ("sed", "gsed"):
            yield from self._program(simple, programs.sed(words))
        elif name in ("awk", "gawk", "mawk", "nawk"):
            yield from self._program(simple, programs.awk(words))
        else:
            yield from self._plain(simple, name)

    def _plain(self, simple: Simple, name: str) -> Iterator[Segment]:
        words = simple.words
        known = None if name in self._functions else looks(name, words, self._ground, self._folders)
        if name in (
            "export",
            "declare",
            "typeset",
            "local",
            "readonly",
            "unset",
            "set",
            "read",
            "mapfile",
            "readarray",
        ):
            known = "reads", ""
            if (
                name == "set"
                and len(words) > 1
                and not re.fullmatch(r"[-+][euxo]+|pipefail|errexit|nounset", words[1].text)
            ):
                known = None
            if name in ("mapfile", "readarray") and len(words) > 2:
                known = None
        if known is not None:
            kind, why = known
            if kind == "reads" and self._tampered:
                kind, why = "runs", self._tampered
            yield segment(simple, kind, why)
        else:
            kind, why, hosts = effect(name, words, self._ground, self._folders)
            yield Segment(text=text_of(words), kind=kind, why=why, hosts=hosts)
            if name == "tee":
                yield from self._files(words[1:])
        yield from self._options(words, name)
        if name in RUNNERS and len(words) > 2 and words[1].text in RUNNERS[name]:
            left = list(words[2:])
            while left and left[0].text.startswith("-"):
                left.pop(0)
            yield from self._nested(Simple(words=tuple(left), stdin=simple.stdin))

    def _files(self, words: Sequence[Word]) -> Iterator[Segment]:
        for word in words:
            if not word.text.startswith("-"):
                yield from self._redirect(Redirect(path=word, writes=True))

    def _wrapped(self, simple: Simple, name: str) -> Iterator[Segment]:
        wrapper = WRAPPERS[name]
        words = simple.words
        if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
            yield segment(simple, "reads")
            return
        inner = unwrapped(name, words)
        if wrapper.grave:
            yield segment(simple, "grave", f"{name} takes other rights")
        if isinstance(inner, Unreadable):
            yield segment(simple, "runs", inner.why)
        elif inner is None:
            if not wrapper.grave:
                yield segment(simple, "reads" if name in ("env", "xargs", "time", "nice", "exec") else "runs")
        elif self._depth >= NESTED_MAX:
            yield segment(simple, "unparsed", "it is nested too deeply")
        else:
            if name == "time" and any(word.text.startswith(("-o", "--o")) for word in words[1:]):
                yield segment(simple, "runs", "time writes a file")
            started = Simple(
                words=inner.words,
                assigned=(*simple.assigned, *inner.assigned),
                stdin=simple.stdin,
                stdin_text=simple.stdin_text,
            )
            whole = text_of(words)
            for each in self._nested(started):
                yield Segment(text=each.text, kind=each.kind, why=each.why, hosts=each.hosts, also=(*each.also, whole))

    def _shell(self, simple: Simple) -> Iterator[Segment]:
        words = list(simple.words[1:])
        if len(words) == 1 and words[0].text == "--version":
            yield segment(simple, "reads")
            return
        while words and words[0].text.startswith(("-", "+")) and words[0].text not in ("-", "--"):
            text = words.pop(0).text
            if text in ("--rcfile", "--init-file", "-O", "+O", "-o", "+o"):
                if text.startswith("--"):
                    yield segment(simple, "runs", "it reads a file of commands")
                del words[:1]
            elif re.fullmatch(r"[-+][a-zA-Z]*c[a-zA-Z]*", text):
                yield from self._line(words[0].text if words else "", simple, "the line it is given")
                return
        if not words and simple.stdin == "text":
            yield from self._line(simple.stdin_text, simple, "what it reads")
        elif not words or words[0].text in ("-", "--"):
            yield segment(simple, "runs", "it runs what it reads")
        else:
            yield segment(simple, "runs", "it runs a file of commands")

    def _evaluated(self, simple: Simple, name: str) -> Iterator[Segment]:
        words = [word for word in simple.words[1:] if not word.text.startswith("-")]
        words = words[:1] if name == "trap" else words
        if any(word.globs for word in words):
            yield segment(simple, "runs", "what it runs cannot be known")
        else:
            yield from self._line(" ".join(word.text for word in words), simple, "the line it is given")

    def _line(self, line: str, simple: Simple, what: str) -> Iterator[Segment]:
        if UNKNOWN in line:
            yield segment(simple, "runs", f"{what} cannot be known")
        elif self._depth >= NESTED_MAX:
            yield segment(simple, "unparsed", "it is nested too deeply")
        else:
            whole = text_of(simple.words)
            nested = [*_Line(pieces_of(line), self._ground, self._depth + 1).segments()]
            for each in nested or [segment(simple, "reads")]:
                yield Segment(text=each.text, kind=each.kind, why=each.why, hosts=each.hosts, also=(*each.also, whole))

    def _nested(self, simple: Simple) -> Iterator[Segment]:
        line = _Line([simple], self._ground, self._depth + 1)
        line._functions, line._tampered = self._functions, self._tampered
        line._folders, line._ground = self._folders, self._ground
        return line.segments()

    def _started(self, started: Started) -> Iterator[Segment]:
        if UNKNOWN in started.line or self._depth >= NESTED_MAX:
            yield Segment(text=started.line, kind="runs", why=started.why)
            return
        inner = [*_Line(pieces_of(started.line), self._ground, self._depth + 1).segments()]
        for each in inner or [Segment(text=started.line, kind="runs", why=started.why)]:
            yield each if each.why else Segment(text=each.text, kind=each.kind, why=started.why, also=each.also)

    def _program(self, simple: Simple, found: programs.Found) -> Iterator[Segment]:
        if found.why:
            yield segment(simple, "runs", found.why)
        else:
            kind, why = self._read_all(found.reads)
            if kind == "reads" and self._tampered:
                kind, why = "runs", self._tampered
            yield segment(simple, kind, why)
        for path in found.writes:
            yield from self._redirect(Redirect(path=Word(path), writes=True))
        for command in found.starts:
            yield from self._nested(Simple(words=command))

    def _read_all(self, paths: Sequence[str]) -> tuple[Kind, str]:
        for path in paths:
            kind, why = read(path, self._ground, self._folders)
            if kind != "reads":
                return kind, why
        return "reads", ""

    def _options(self, words: Sequence[Word], name: str) -> Iterator[Segment]:
        """Commands that stand in the values of options."""
        if name in STARTERS:
            for line in programs.options_that_start(words, STARTERS[name]):
                yield from self._started(Started(line, f"{name} starts it"))
        if name in ("ssh", "scp", "sftp", "rsync"):
            for text in (word.text for word in words):
                if found := re.search(
                    r"(?i)(ProxyCommand|LocalCommand|KnownHostsCommand|Match\s+exec)[=\s]+(.*)", text
                ):
                    yield from self._started(Started(found[2], f"ssh starts the {found[1]}"))
        if name == "tar":
            for text in (word.text for word in words):
                if found := re.match(r"--checkpoint-a\w*=exec=(.*)", text, re.DOTALL):
                    yield from self._started(Started(found[1], "tar starts it at a checkpoint"))
                elif text.startswith("exec="):
                    yield from self._started(Started(text[5:], "tar starts it at a checkpoint"))
        if name in ("fd", "fdfind"):
            at = next((place for place, word in enumerate(words) if _fd_starts(word.text)), None)
            if at is not None:
                text = words[at].text
                attached = text.partition("=")[2] if text.startswith("--") else text[2:]
                command = [Word(attached)] if attached else []
                command += [Word(word.text.replace("{}", UNKNOWN)) for word in words[at + 1 :] if word.text != ";"]
                yield from self._nested(Simple(words=(*command, Word(UNKNOWN))))


class _Moved:
    """The line goes to other folders of the workspace: only what does not climb is surely still in it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def inside(self, path: str) -> bool:
        return self._ground.inside(path) and (path.startswith("/") or ".." not in path.split("/"))


class _Astray:
    """The line goes where we do not know: no relative path says where it lies."""

    def inside(self, path: str) -> bool:
        del path
        return False


def _stays(folder: str, ground: Ground) -> bool:
    return ground.inside(folder) and ".." not in folder.split("/") and folder != "-"


def _name(simple: Simple) -> str:
    """The command's own name; with its folder where that is none of the system's."""
    text = simple.words[0].text if simple.words else ""
    folder, base = posixpath.split(text)
    return base if folder in SYSTEM_FOLDERS else text


def _renamed(simple: Simple, name: str) -> Simple:
    return Simple(
        words=(Word(name), *simple.words[1:]),
        assigned=simple.assigned,
        stdin=simple.stdin,
        stdin_text=simple.stdin_text,
    )


def _lifted(each: Segment, why: str) -> Segment:
    """What is set for a command may make it start others."""
    if each.kind not in ("reads", "writes"):
        return each
    return Segment(text=each.text, kind="runs", why=why, also=each.also)


def _tampers(piece: Piece) -> str:
    """Why later commands may not be what their names say."""
    match piece:
        case Assignment(name=name, exported=exported) if not SAFE_VARIABLES.fullmatch(name):
            return f"{name} is set before it" if exported or name.isupper() else ""
        case Simple(words=(Word("alias" | "enable" | "hash" | "source" | "." | "shopt"), _, *_)):
            return f"{piece.words[0].text} stands in the same line"
        case _:
            return ""


def _assignment(piece: Assignment) -> Iterator[Segment]:
    text = f"{piece.name}={piece.value.text}"
    if "$(" in piece.value.text or "`" in piece.value.text:
        yield Segment(text=text, kind="unparsed", why="its value holds code that the shell may run")
    elif why := _tampers(piece):
        yield Segment(text=text, kind="runs", why=why.replace("is set before it", "may change what commands do"))


def _fd_starts(text: str) -> bool:
    return text.startswith(("-x", "-X")) or (len(text) > 4 and "--exec-batch".startswith(text.partition("=")[0]))
