"""Small languages inside arguments: sed scripts, awk programs, find expressions. What is not known to be harmless is
not."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from turnwright.session.permissions.syntax import UNKNOWN, Word


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a program would do besides looking."""

    starts: tuple[tuple[Word, ...], ...] = ()
    """Commands, word by word."""
    lines: tuple[str, ...] = ()
    """Lines for a shell."""
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    why: str = ""
    """Not empty: it may do anything."""


_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
_ADDRESSES = re.compile(
    rf"\s*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS.replace(chr(92) + '1', chr(92) + '2')}))?)?\s*!?\s*"
)
_PLAIN_COMMAND = re.compile(r"[=dDgGhHnNpPxlFz]|[qQlL]\s*\d*|[bt:]\s*[\w.-]*|[{}]|#[^\n]*")
_SUBSTITUTION_FLAGS = re.compile(r"[gpiImM0-9]*")


def sed_script(script: str) -> Found:
    """Read command by command; the first that is not known to be harmless ends it."""
    if UNKNOWN in script:
        return Found(why="its script cannot be known")
    if len(script) > 20_000:
        return Found(why="its script is too long to be read")
    at, writes = 0, []
    while at < len(script):
        if script[at] in " \t\n;":
            at += 1
            continue
        address = _ADDRESSES.match(script, at)
        at = address.end() if address else at
        if at >= len(script):
            break
        letter = script[at]
        if letter in "sy":
            end, written, problem = _substitution(script, at)
            if problem:
                return Found(why=problem)
            writes += written
            at = end
        elif letter in "wW":
            end = _line_end(script, at)
            writes.append(script[at + 1 : end].strip())
            at = end
        elif letter in "aic":
            at = _line_end(script, at)
        elif plain := _PLAIN_COMMAND.match(script, at):
            at = plain.end()
        else:
            return Found(why="the command e of its script starts a program" if letter == "e" else "its script is odd")
    return Found(writes=tuple(writes))


def _substitution(script: str, at: int) -> tuple[int, list[str], str]:
    """Where it ends, what it writes, what is wrong with it."""
    if at + 1 >= len(script):
        return at, [], "its script is odd"
    delimiter = script[at + 1]
    place, parts = at + 2, 0
    while place < len(script) and parts < 2:
        if script[place] == "\\":
            place += 1
        elif script[place] == delimiter:
            parts += 1
        place += 1
    if parts < 2:
        return at, [], "its script is odd"
    flags = _SUBSTITUTION_FLAGS.match(script, place)
    place = flags.end() if flags else place
    if script[place : place + 1] == "e":
        return place, [], "the flag e of its script starts a program"
    if script[place : place + 1] == "w":
        end = _line_end(script, place)
        return end, [script[place + 1 : end].strip()], ""
    if script[place : place + 1] not in ("", ";", "\n", "}", " ", "\t", "#"):
        return place, [], "its script is odd"
    return place, [], ""


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def sed(words: Sequence[Word]) -> Found:
    scripts, files, in_place = [], [], False
    left = list(words[1:])
    while left:
        text = left.pop(0).text
        name, equals, value = text.partition("=")
        if text.startswith("--") and len(text) > 2:
            if "--in-place".startswith(name):
                in_place = True
            elif "--expression".startswith(name):
                scripts.append(value if equals or not left else left.pop(0).text)
            elif "--file".startswith(name):
                return Found(why="its script is in a file")
            elif "--line-length".startswith(name) and not equals and left:
                left.pop(0)
        elif text.startswith("-") and len(text) > 1:
            problem, in_place = _sed_letters(text, left, scripts, in_place)
            if problem:
                return Found(why=problem)
        else:
            files.append(text)
    if not scripts and files:
        scripts.append(files.pop(0))
    found = [sed_script(script) for script in scripts]
    why = next((each.why for each in found if each.why), "")
    writes = tuple(path for each in found for path in each.writes) + (tuple(files) if in_place else ())
    return Found(why=why, writes=writes, reads=tuple(files))


def _sed_letters(text: str, left: list[Word], scripts: list[str], in_place: bool) -> tuple[str, bool]:
    for place, letter in enumerate(text[1:], 1):
        attached = text[place + 1 :]
        if letter == "e":
            scripts.append(attached or (left.pop(0).text if left else ""))
            return "", in_place
        if letter == "i":
            return "", True  # what is attached is a suffix
        if letter == "f" or letter not in "nErsuzbl":
            return "its script is in a file" if letter == "f" else f"the option -{letter} of sed is not known", in_place
        if letter == "l":
            if not attached and left:
                left.pop(0)
            return "", in_place
    return "", in_place


_AWK_ACTS = re.compile(r"system\s*\(|\||>|getline|@|close\s*\(|extension|load|ARGV|ARGC")


def awk(words: Sequence[Word]) -> Found:
    left, program = list(words[1:]), None
    files: list[str] = []
    while left:
        text = left.pop(0).text
        if program is None and text.startswith("-") and len(text) > 1 and text != "--":
            if text[1] in "Fv" and not text.startswith("--"):
                if len(text) == 2 and left:
                    left.pop(0)
            elif not text.startswith(("--field-separator=", "--assign=", "--posix", "--re-interval")):
                return Found(why=f"{text.partition('=')[0].replace(UNKNOWN, '…')} may load a program")
        elif program is None:
            program = "" if text == "--" and left else text
            if text == "--" and left:
                program = left.pop(0).text
        else:
            files.append(text)
    if program is None or UNKNOWN in program:
        return Found(why="its program cannot be known")
    without_texts = re.sub(r'"(?:[^"\\]|\\.)*"', '""', program)
    if acting := _AWK_ACTS.search(without_texts):
        return Found(why=f"its program may start others or write files ({acting[0].strip()})")
    return Found(reads=tuple(path for path in files if "=" not in path))


_FIND_STARTS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})


def find(words: Sequence[Word]) -> Found:
    starts: list[tuple[Word, ...]] = []
    writes: list[str] = []
    reads: list[str] = []
    why, left, in_expression = "", list(words[1:]), False
    while left:
        text = left.pop(0).text
        if text in _FIND_STARTS:
            command: list[Word] = []
            while left and left[0].text != ";" and not (left[0].text == "+" and command[-1:] == [Word(UNKNOWN)]):
                word = left.pop(0)
                command.append(Word(word.text.replace("{}", UNKNOWN), word.globs))
            del left[:1]
            starts.append(tuple(command))
        elif text in _FIND_WRITES:
            writes.append(left.pop(0).text if left else "")
        elif text == "-delete":
            why = "-delete removes what it finds"
        elif text.startswith("-files0-from"):
            why = "where it looks cannot be known"
        elif UNKNOWN in text:
            why = why or "what it is given cannot be known"
        elif not in_expression and not text.startswith(("-", "(", "!")):
            reads.append(text)
        in_expression = in_expression or text.startswith(("-", "(", "!"))
    return Found(starts=tuple(starts), writes=tuple(writes), reads=tuple(reads), why=why)


def options_that_start(words: Sequence[Word], options: Sequence[str]) -> list[str]:
    """The values of options that name a command, abbreviated or not."""
    found = []
    texts = [word.text for word in words[1:]]
    for place, text in enumerate(texts):
        name, equals, value = text.partition("=")
        behind = "".join(texts[place + 1 : place + 2])
        for option in options:
            if option.startswith("--"):
                if len(name) > 4 and option.startswith(name):
                    found.append(value if equals else behind)
                    break
            elif text.startswith(option) and not text.startswith("--"):
                found.append(text[len(option) :] or behind)
                break
    return found
