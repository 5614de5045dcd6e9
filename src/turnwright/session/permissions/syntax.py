"""A shell line as the simple commands, redirections and assignments in it, wherever they hide.

Read from tree-sitter's grammar of bash. What the grammar does not know, or what we do not know of the grammar, is
`Opaque`: it is never taken for harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from turnwright.session.permissions.words import words_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

UNKNOWN = "\ufffc"
"""Stands in a word for what only the shell will know."""

DEPTH_MAX = 60
BYTES_MAX = 256 * 1024


class Word(msgspec.Struct, frozen=True):
    text: str
    """Without its quotes; `UNKNOWN` where an expansion stands."""
    globs: bool = False
    """It may become several words, names of files."""

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text and not self.globs


class Simple(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `assigned` are the variables set for it alone."""

    words: tuple[Word, ...]
    assigned: tuple[tuple[str, Word], ...] = ()
    stdin: Literal["nothing", "pipe", "text"] = "nothing"
    stdin_text: str = ""
    """The here-document or here-string it reads, where that is known."""


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the shell itself opens."""

    path: Word
    writes: bool


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Word
    exported: bool = False


class Function(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    calls_itself: bool


class Opaque(msgspec.Struct, frozen=True, kw_only=True):
    """A piece that we cannot read."""

    text: str
    why: str


Piece: TypeAlias = Simple | Redirect | Assignment | Function | Opaque


def pieces_of(line: str) -> list[Piece]:
    """In the order in which they stand; a function's body where it is defined."""
    source = line.encode("utf-8", "surrogatepass")
    if len(source) > BYTES_MAX:
        return [Opaque(text=line[:200], why="it is too long to be read")]
    if "\0" in line:
        return [Opaque(text=line.replace("\0", "\\0")[:200], why="it holds a NUL")]
    if _SPLIT_WORD.search(line):
        return [Opaque(text=line, why="a word goes on in the next line")]
    root = parser().parse(source).root_node
    if root.has_error:
        return [Opaque(text=line, why="it cannot be parsed")]
    return list(_Walk(line).below(root, 0))


@lru_cache(maxsize=1)
def parser() -> Parser:
    """Loading it costs milliseconds, once."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


RESERVED = words_of("{ } ! [[ ]] if then elif else fi for while until do done case esac select function in")
_HIDDEN_CODE = re.compile(r"'[^']*(?:\$\(|`)|\\\$\(|\\`")
"""`[[ -v 'a[$(command)]' ]]`: a subscript in a text is evaluated."""
_SPLIT_WORD = re.compile(r"[^\s\\]\\\n[^\s]")
"""The shell joins what the grammar takes for two words."""
_TRANSPARENT = words_of(
    """
    program list pipeline subshell compound_statement if_statement elif_clause else_clause
    while_statement do_group case_statement case_item negated_command for_statement
    c_style_for_statement command_substitution process_substitution arithmetic_expansion
    test_command binary_expression unary_expression ternary_expression parenthesized_expression
    postfix_expression subscript array expansion string concatenation translated_string
    redirected_statement string_expansion variable_assignments
    """
)
_LEAVES = words_of(
    """
    word number raw_string ansi_c_string string_content simple_expansion variable_name
    special_variable_name test_operator extglob_pattern regex file_descriptor heredoc_start
    heredoc_content heredoc_end comment brace_expression
    """
)
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})


class _Walk:
    def __init__(self, line: str) -> None:
        self._line = line

    def below(self, node: Node, depth: int) -> Iterator[Piece]:
        for place, child in enumerate(node.children):
            yield from self.piece(child, depth + 1, piped=node.type == "pipeline" and place > 0)

    def piece(self, node: Node, depth: int, piped: bool = False) -> Iterator[Piece]:
        if depth > DEPTH_MAX:
            yield Opaque(text=_text(node)[:200], why="it is nested too deeply")
        elif not node.is_named or node.type in _LEAVES:
            return
        elif node.type == "expansion" and re.search(r"@P\}$", _text(node)):
            yield Opaque(text=_text(node), why="it runs what a variable holds")
        elif node.type == "test_command" and _HIDDEN_CODE.search(_text(node)):
            yield Opaque(text=_text(node), why="the shell may run what stands between its brackets")
        elif node.type == "command":
            yield from self._command(node, depth, [], piped)
        elif node.type == "redirected_statement":
            yield from self._redirected(node, depth, piped)
        elif node.type in _REDIRECTS:
            yield from self._redirect(node, depth)
        elif node.type == "variable_assignment":
            yield from self._assignment(node, depth, exported=False)
        elif node.type in ("declaration_command", "unset_command"):
            yield from self._declaration(node, depth)
        elif node.type == "function_definition":
            yield from self._function(node, depth)
        elif node.type in _TRANSPARENT:
            yield from self.below(node, depth)
        else:
            yield Opaque(text=_text(node)[:200], why=f"the form {node.type} is not known")

    def _command(self, node: Node, depth: int, redirects: list[Node], piped: bool) -> Iterator[Piece]:
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        inner: list[Node] = []
        own = list(redirects)
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    assigned.append(_assigned(child))
                    inner.append(child)
                case "command_name":
                    words += _words(child.children[0]) if child.children else [Word(_text(child))]
                    inner.append(child)
                case kind if kind in _REDIRECTS:
                    own.append(child)
                case _ if child.is_named or words:
                    words += _words(child)
                    inner.append(child)
                case _:
                    pass
        for redirect in own:
            words += [word for extra in _arguments_behind(redirect) for word in _words(extra)]
        stdin, text = _stdin(own, piped)
        if words and words[0].text in RESERVED:
            yield Opaque(text=_text(node), why=f"the grammar took the shell's own word {words[0].text} for a command")
        if words or assigned:
            yield Simple(words=tuple(words), assigned=tuple(assigned), stdin=stdin, stdin_text=text)
        for each in inner:
            yield from (
                self.below(each, depth)
                if each.type not in ("process_substitution", "command_substitution")
                else (self.piece(each, depth))
            )
        for redirect in own:
            yield from self._redirect(redirect, depth)

    def _redirected(self, node: Node, depth: int, piped: bool) -> Iterator[Piece]:
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        bodies = [child for child in node.children if child.type not in _REDIRECTS]
        if len(bodies) == 1 and bodies[0].type == "command":
            yield from self._command(bodies[0], depth, redirects, piped)
            return
        for body in bodies:
            yield from self.piece(body, depth + 1, piped)
        for redirect in redirects:
            extra = [word for behind in _arguments_behind(redirect) for word in _words(behind)]
            if extra:  # `> file command`: the grammar hangs the command on the redirection
                yield Simple(words=tuple(extra))
            yield from self._redirect(redirect, depth)

    def _redirect(self, node: Node, depth: int) -> Iterator[Piece]:
        if node.type == "file_redirect":
            operator = next((each.type for each in node.children if not each.is_named), "")
            target = next((each for each in node.children if each.is_named and each.type != "file_descriptor"), None)
            if target is not None and not (operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", _text(target))):
                for word in _words(target):
                    yield Redirect(path=word, writes=operator in _WRITES)
        for child in node.children:
            if child.type == "heredoc_body":
                yield from self.below(child, depth)
            elif child.is_named and child.type not in _LEAVES:
                yield from self.piece(child, depth + 1)

    def _assignment(self, node: Node, depth: int, *, exported: bool) -> Iterator[Piece]:
        name, value = _assigned(node)
        yield Assignment(name=name, value=value, exported=exported)
        yield from self.below(node, depth)

    def _declaration(self, node: Node, depth: int) -> Iterator[Piece]:
        keyword = _text(node.children[0])
        flags = "".join(_text(child) for child in node.children if _text(child).startswith("-"))
        exported = keyword == "export" or "x" in flags
        plain: list[Word] = []
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                yield from self._assignment(child, depth, exported=exported)
            elif child.is_named:
                plain += _words(child)
                yield from self.piece(child, depth + 1)
        yield Simple(words=(Word(keyword), *plain))

    def _function(self, node: Node, depth: int) -> Iterator[Piece]:
        name = next((_text(child) for child in node.children if child.type == "word"), "")
        body = [piece for child in node.children if child.type != "word" for piece in self.piece(child, depth + 1)]
        called = {piece.words[0].text for piece in body if isinstance(piece, Simple) and piece.words}
        yield Function(name=name, calls_itself=name in called)
        yield from body


def _text(node: Node) -> str:
    raw = node.text
    return raw.decode("utf-8", "replace") if raw is not None else ""


def _assigned(node: Node) -> tuple[str, Word]:
    named = [child for child in node.children if child.is_named]
    name = _text(named[0]).partition("[")[0] if named else ""
    values = [word for child in named[1:] for word in _words(child)]
    if len(values) == 1:
        return name, values[0]
    return name, Word(" ".join(word.text for word in values))


def _words(node: Node) -> list[Word]:
    """What the shell makes of one word. An expansion may make any number of it, and counts as one that is unknown."""
    text, globs = _value(node)
    if node.type in ("concatenation", "word", "brace_expression") and re.search(r"\{[^{}]*(,|\.\.)", _text(node)):
        return [Word(UNKNOWN)]
    return [Word(text, globs)]


def _value(node: Node) -> tuple[str, bool]:
    match node.type:
        case "word" | "number" | "variable_name" | "extglob_pattern" | "special_variable_name" | "test_operator":
            if any(child.is_named for child in node.children):
                return UNKNOWN, False
            return _unescaped(_text(node)), bool(re.search(r"(?<!\\)[*?\[]", _text(node)))
        case "raw_string":
            return _text(node)[1:-1], False
        case "ansi_c_string":
            inner = _text(node)[2:-1]
            return (UNKNOWN if "\\" in inner else inner), False
        case "string" | "translated_string":
            return _quoted(node), False
        case "concatenation" | "command_name":
            parts = [_value(child) for child in node.children]
            return "".join(text for text, _ in parts), any(globs for _, globs in parts)
        case _ if not node.is_named:
            return _text(node), False
        case _:
            return UNKNOWN, False


def _quoted(node: Node) -> str:
    """The grammar leaves white space at the edges of a string out of its contents: taken from the source instead."""
    source = _text(node)
    begin = (node.start_byte, source.index('"') + 1)
    raw = source.encode("utf-8", "replace")
    at, said = begin[1], []
    for child in node.children:
        if child.is_named and child.type not in ("string_content", "string"):
            start, end = child.start_byte - begin[0], child.end_byte - begin[0]
            said += [_unescaped_in_quotes(raw[at:start].decode("utf-8", "replace")), UNKNOWN]
            at = end
    said.append(_unescaped_in_quotes(raw[at:-1].decode("utf-8", "replace")))
    return "".join(said)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _unescaped_in_quotes(text: str) -> str:
    return re.sub(r'\\([\n$`"\\])', lambda found: "" if found[1] == "\n" else found[1], text)


def _arguments_behind(redirect: Node) -> list[Node]:
    """Words that belong to the command, though they stand behind the redirection's own."""
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    if redirect.type == "file_redirect":
        return named[1:]
    if redirect.type == "heredoc_redirect":
        passed = ("heredoc_start", "heredoc_body", "heredoc_end", "pipeline", "list", *_REDIRECTS)
        return [child for child in named if child.type not in passed and child.type in (*_LEAVES, *_TRANSPARENT)]
    return []


def _stdin(redirects: list[Node], piped: bool) -> tuple[Literal["nothing", "pipe", "text"], str]:
    for redirect in redirects:
        if redirect.type == "heredoc_redirect":
            body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
            quoted = any(c in _text(redirect).split("\n", 1)[0].split("<<", 1)[-1] for c in "'\"\\")
            text = "" if body is None else _text(body)
            expands = not quoted and re.search(r"[$`\\]", text)
            return "text", UNKNOWN if expands else text
        if redirect.type == "herestring_redirect":
            words = [word for child in redirect.children if child.is_named for word in _words(child)]
            return "text", " ".join(word.text for word in words)
        if redirect.type == "file_redirect" and redirect.children[0].type == "<":
            return "pipe", ""
    return ("pipe", "") if piped else ("nothing", "")
