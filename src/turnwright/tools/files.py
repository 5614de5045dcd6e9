"""Read, write, edit and list files, through the machine.

What the model has read is remembered by hash: a file that it never saw, or that changed since, is not overwritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import posixpath
from collections.abc import Iterator
from typing import Annotated

import msgspec

from turnwright.machine.port import READ_BYTES_MAX, Absent, FileContent, Machine, Unchanged
from turnwright.schema.errors import ToolFailure
from turnwright.schema.messages import Image
from turnwright.schema.tools import Detail, ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool
from turnwright.tools.shorten import clip, visible
from turnwright.tools.text import IMAGE_TYPES, Binary, Decoded, decode, encode, line_end_of, with_newlines

IMAGE_BYTES_MAX = 5 * 1024 * 1024
LINES_SHOWN = 2_000
ENTRIES_SHOWN = 1_000

# Under the registry's limit, so that what is shown is never cut in its middle: there is a next page instead.
_SHOWN_BYTES = 48_000
_PIECE_BYTES = 1024 * 1024

LineNumber = Annotated[int, msgspec.Meta(ge=1)]


@tool(effect="reads", timeout_s=60)
async def read(
    ctx: ToolContext, path: str, first_line: LineNumber = 1, max_lines: LineNumber = LINES_SHOWN
) -> ToolOutcome:
    """Read a file: text with line numbers (number, tab, line), or an image to look at.

    Long files come in pages; the last line says how to go on. A file must have been read before it can be changed.

    Args:
        path: Relative to the workspace.
        first_line: The first line to show, from 1.
        max_lines: How many lines to show at most.
    """
    with answering(path):
        try:
            content = await ctx.machine.read(path)
        except FileNotFoundError:
            raise ToolFailure(f"{path} does not exist.", remedy=await _similar(ctx.machine, path)) from None
        except IsADirectoryError:
            raise ToolFailure(f"{path} is a folder.", remedy="List it with ls.") from None
        if content.sha256 is None:
            return await _read_large(ctx.machine, path, content, first_line, max_lines)
    match decode(content.data):
        case Binary(kind=kind) if kind in IMAGE_TYPES:
            return _image(path, kind, content.data)
        case Binary(kind=kind):
            raise ToolFailure(f"{path} is not text but a {kind} of {len(content.data):,} bytes.")
        case Decoded(text=text, encoding=encoding):
            ctx.files.seen[known_as(ctx.machine, path)] = content.sha256
            lines = lines_of(text)
            if first_line > max(len(lines), 1):
                raise ToolFailure(f"{path} has {len(lines)} lines; there is no line {first_line}.")
            shown = _page(lines[first_line - 1 :], first_line, max_lines, len(lines))
            return ToolOutcome(
                output=shown or f"({path} is empty)",
                detail={"sha256": content.sha256, "lines": len(lines), "encoding": encoding},
            )


@tool(effect="writes", timeout_s=60)
async def write(ctx: ToolContext, path: str, content: str) -> ToolOutcome:
    """Make a file, or replace the whole of one that you have read. Missing folders are made.

    To change a part of a file use edit.

    Args:
        path: Relative to the workspace.
        content: The whole new text. An existing file keeps its encoding, line ends and mode.
    """
    with answering(path):
        there = await _to_overwrite(ctx, path)
        if there is None:
            data = encode(content, "utf-8", path)
            written = await ctx.machine.write(path, data, only_if=Absent())
        else:
            before, text = there
            end = line_end_of(text.text)
            fitted = content if "\r" in content or end == "\n" else content.replace("\n", end)
            data = encode(fitted, text.encoding, path)
            if data == before.data:
                raise ToolFailure(f"{path} already reads exactly so; nothing was written.")
            written = await ctx.machine.write(path, data, only_if=Unchanged(before.sha256 or ""))
    ctx.files.seen[known_as(ctx.machine, path)] = written.sha256
    lines = len(lines_of(content))
    verb = "Made" if there is None else "Replaced"
    return ToolOutcome(
        output=f"{verb} {path}: {lines} line{'' if lines == 1 else 's'}, {len(data):,} bytes.",
        detail={"sha256_before": written.sha256_before, "sha256_after": written.sha256},
    )


@tool(effect="writes", timeout_s=60)
async def edit(ctx: ToolContext, path: str, old: str, new: str, replace_all: bool = False) -> ToolOutcome:
    """Replace a piece of text in a file that you have read.

    `old` must stand in exactly one place: copy it from the file without the line numbers, with enough lines around it.
    Small differences in space and punctuation are forgiven where only one place can be meant, and reported.

    Args:
        path: Relative to the workspace.
        old: The text to replace, as it is in the file.
        new: What to put there; empty to remove it.
        replace_all: Replace every place instead of exactly one.
    """
    from turnwright.tools.matchers import listed, replace

    with answering(path):
        before, text = await _to_edit(ctx, path)
        done = await asyncio.to_thread(replace, text.text, old, new, every=replace_all, path=path)
        data = encode(done.text, text.encoding, path)
        written = await ctx.machine.write(path, data, only_if=Unchanged(before.sha256 or ""))
    ctx.files.seen[known_as(ctx.machine, path)] = written.sha256
    how = "" if done.matcher == "exact" else f" The text did not match exactly; it was found by: {done.matcher}."
    count = len(done.lines)
    places = f"line {done.lines[0]}" if count == 1 else f"{count} places, lines {listed(done.lines)}"
    detail: Detail = {
        "sha256_before": written.sha256_before,
        "sha256_after": written.sha256,
        "matcher": done.matcher,
        "line": done.lines[0],
        "replacements": count,
    }
    return ToolOutcome(output=f"Edited {path} at {places}.{how}", detail=detail)


@tool(effect="reads", timeout_s=60)
async def ls(ctx: ToolContext, path: str = ".") -> str:
    """List a folder: folders end in /, links in @, files show their size in bytes.

    Args:
        path: Relative to the workspace.
    """
    with answering(path):
        try:
            entries = await ctx.machine.list_directory(path)
        except NotADirectoryError:
            raise ToolFailure(f"{path} is not a folder.", remedy="Read it with read.") from None
    marks = {"directory": "/", "link": "@", "other": "|"}
    lines = [
        f"{visible(entry.name)}{marks[entry.kind]}" if entry.kind != "file" else f"{visible(entry.name)}\t{entry.size}"
        for entry in entries[:ENTRIES_SHOWN]
    ]
    if len(entries) > ENTRIES_SHOWN:
        lines.append(f"[{len(entries) - ENTRIES_SHOWN:,} more; look for names with glob]")
    return "\n".join(lines) or f"({path} is empty)"


@contextlib.contextmanager
def answering(path: str) -> Iterator[None]:
    """What the machine refuses is an answer for the model."""
    try:
        yield
    except OSError as fault:
        remedy = "Read it again." if fault.errno == errno.ESTALE else ""
        raise ToolFailure(f"{fault.filename or path}: {fault.strerror or fault}.", remedy=remedy) from fault


def known_as(machine: Machine, path: str) -> str:
    """One name for a file, however it is written: relative to the workspace, without detours."""
    return posixpath.relpath(posixpath.join(machine.workspace, path), machine.workspace)


def lines_of(text: str) -> list[str]:
    """Without their ends; a final newline does not begin another line."""
    lines = with_newlines(text).split("\n")
    return lines[:-1] if not lines[-1] else lines


async def _to_overwrite(ctx: ToolContext, path: str) -> tuple[FileContent, Decoded] | None:
    """What is there now, if the model knows it; None where there is nothing."""
    try:
        status = await ctx.machine.stat(path)
    except FileNotFoundError:
        return None
    if status.kind == "file" and status.size == 0:
        ctx.files.seen.setdefault(known_as(ctx.machine, path), EMPTY_SHA256)
    return await _to_edit(ctx, path)


EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""Of no bytes at all. A file without content has nothing in it that must be read first."""


async def _to_edit(ctx: ToolContext, path: str) -> tuple[FileContent, Decoded]:
    try:
        content = await ctx.machine.read(path)
    except FileNotFoundError:
        raise ToolFailure(f"{path} does not exist.", remedy=await _similar(ctx.machine, path)) from None
    if content.sha256 is None:
        raise ToolFailure(f"{path} is larger than {READ_BYTES_MAX:,} bytes.", remedy="Change it with a command.")
    decoded = decode(content.data)
    if isinstance(decoded, Binary):
        raise ToolFailure(f"{path} is not text but a {decoded.kind}; it cannot be changed as text.")
    seen = ctx.files.seen.get(known_as(ctx.machine, path))
    if seen is None:
        raise ToolFailure(f"{path} has not been read yet.", remedy="Read it first, then change it.")
    if seen != content.sha256:
        raise ToolFailure(f"{path} has changed since you read it.", remedy="Read it again, then change it.")
    return content, decoded


def _image(path: str, kind: str, data: bytes) -> ToolOutcome:
    import base64

    if len(data) > IMAGE_BYTES_MAX:
        raise ToolFailure(f"{path} is a {kind} of {len(data):,} bytes; at most {IMAGE_BYTES_MAX:,} can be shown.")
    picture = Image(media_type=IMAGE_TYPES[kind], data=base64.b64encode(data).decode())
    return ToolOutcome(output=f"{path} is a {kind} of {len(data):,} bytes.", images=(picture,))


def _page(lines: list[str], first: int, max_lines: int, total: int | None) -> str:
    """Numbered lines within the limits, and how to go on where there are more."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[:max_lines], first):
        text = f"{number}\t{clip(visible(line))}"
        size += len(text.encode("utf-8", "replace")) + 1
        if shown and size > _SHOWN_BYTES:
            break
        shown.append(text)
    last = first + len(shown) - 1
    if len(shown) < len(lines):
        of = "" if total is None else f" of {total:,}"
        shown.append(f"[lines {first:,} to {last:,}{of}; go on with first_line={last + 1}]")
    return "\n".join(shown)


async def _read_large(machine: Machine, path: str, head: FileContent, first_line: int, max_lines: int) -> ToolOutcome:
    """A page of a file that is too large to be held. Such a file can be read, not edited."""
    if isinstance(sniffed := decode(head.data[:_PIECE_BYTES].rsplit(b"\n", 1)[0]), Binary):
        raise ToolFailure(f"{path} is not text but a {sniffed.kind} of {head.stat.size:,} bytes.")
    number, at, kept = 1, 0, b""
    while kept.count(b"\n") <= max_lines and len(kept) <= 4 * _SHOWN_BYTES:
        piece = (await machine.read(path, start=at, bytes_max=_PIECE_BYTES)).data
        if not piece:
            break
        at += len(piece)
        ends = piece.count(b"\n")
        if number < first_line <= number + ends:
            kept = piece.split(b"\n", first_line - number)[-1]
        elif number >= first_line:
            kept += piece
        number += ends
    if not kept:
        raise ToolFailure(f"{path} has {number - 1:,} lines; there is no line {first_line:,}.")
    lines = lines_of(kept.decode(sniffed.encoding, "replace"))
    shown = _page(lines, first_line, max_lines, None)
    return ToolOutcome(output=shown, detail={"size": head.stat.size, "encoding": sniffed.encoding})


async def _similar(machine: Machine, path: str) -> str:
    """What may have been meant, from the names beside it."""
    import difflib

    folder, name = posixpath.split(path)
    try:
        entries = await machine.list_directory(folder or ".")
    except OSError:
        return f"Nor is there a folder {folder}." if folder else ""
    near = difflib.get_close_matches(name, [entry.name for entry in entries], n=3)
    return f"Did you mean {' or '.join(posixpath.join(folder, found) for found in near)}?" if near else ""
