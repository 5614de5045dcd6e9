"""What became of something that the user said to a conversation, or took back of it."""

from __future__ import annotations

import sys

import msgspec

from turnwright.app.speaking import Spoken
from turnwright.app.undoing import Undone
from turnwright.cli.terminal import Terminal
from turnwright.views.text import Line, Span, Style, line, one_line


def tell_spoken(spoken: Spoken, then: str, *, as_json: bool) -> None:
    """The letter's id alone on stdout, for scripts; `then` is what a running turn does with it."""
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(spoken) + b"\n")
        return
    print(spoken.inbox_id)
    sys.stdout.flush()
    waits = (
        f"No turn of {spoken.conversation_id} is running: it waits on disk for the next one.\n"
        f"Start that with: turnwright resume {spoken.conversation_id} --continue"
    )
    print(then if spoken.running else waits, file=sys.stderr)


def tell_undone(undone: Undone, *, as_json: bool, again: bool = False) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(undone) + b"\n")
        return
    Terminal(sys.stdout).lines(_undone_lines(undone, again=again))


def _undone_lines(undone: Undone, *, again: bool) -> list[Line]:
    verb = "done again" if again else "undone"
    if undone.finished:
        verb = "finished, as it had been interrupted" if undone.done else "to be finished, as it was interrupted"
    elif not undone.done:
        verb = f"would be {verb}"
    what = f"{len(undone.steps)} step{'s' * (len(undone.steps) != 1)} of " if undone.steps else ""
    back = f", back to {undone.back_to}" if undone.back_to else ""
    lines = [line(Span(f"{verb}: ", "heading"), f"{what}{undone.conversation}{back} in {one_line(undone.workspace)}")]
    lines += [line(Span(f"  {each.became:<9} ", "dim"), one_line(each.path)) for each in undone.paths]
    told: tuple[tuple[tuple[str, ...], str, Style], ...] = (
        (undone.in_the_way, "changed since by somebody else", "warn"),
        (undone.not_kept, "too large to have been saved: cannot be put back", "warn"),
        (undone.for_good, "too large to be saved: no redo brings it back", "warn"),
    )
    lines += [line(Span(f"  {one_line(path)}: {why}", style)) for paths, why, style in told for path in paths]
    if not undone.paths:
        lines.append(line("  The files are so already."))
    if undone.done and undone.goes_on_as:
        lines.append(line(f"The conversation goes on as {undone.goes_on_as}:"))
        lines.append(line(f"  turnwright run --resume {undone.goes_on_as} TASK"))
    if undone.done and not again:
        lines.append(line("Take this back with: turnwright redo"))
    return lines
