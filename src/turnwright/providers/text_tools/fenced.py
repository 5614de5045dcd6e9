"""`bash-block` and `unified-diff`: a fenced block in the language of the tool."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwright.providers.text_tools.lines import FenceEnd, Lines
from turnwright.providers.text_tools.notation import BLANKS, Opening, Opens, listing, named, object_of
from turnwright.providers.text_tools.patches import patch_arguments, patch_text, patch_tool
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import ToolCallArguments, ToolCallStart
from turnwright.schema.prompt import ToolSpec

_TICKS = re.compile(r"^`{3,}", re.MULTILINE)

_BASH = """\
To run a shell command, write it in a fenced block of the language bash, its fences alone at the beginning of a line:
```bash
ls -la
```
The block runs when your reply ends; write ```sh for a command that you only mention. If a line of the command itself \
begins with ```, open and close with ````. The block is the `command` of this tool, whose other arguments keep their \
defaults:
"""
_DIFF = """\
To change files, write a unified diff in a fenced block of the language diff, its fences alone at the beginning of a \
line. Every line of a hunk begins with a space, - or +; give three lines of context:
```diff
--- a/src/name.py
+++ b/src/name.py
@@ -1,3 +1,3 @@
 import sys
-print("old")
+print("new")
 sys.exit()
```
The block is the text of this tool:
"""


class Fenced:
    """A fenced block whose language is `language`; its text is one argument of one tool."""

    wants_line_above = False

    def __init__(self, language: str, tool: ToolSpec, before: str, about: str, *, trims: bool) -> None:
        self.tools = (tool,)
        self._language = language
        self._before = before
        self._about = about
        self._trims = trims

    def opens(self, line: str, above: str, index: int) -> Opens:
        rest = line.lstrip(" ")
        indent = len(line) - len(rest)
        info = rest.lstrip("`")
        width = len(rest) - len(info)
        if indent > 3 or (width < 3 and info):
            return "no"
        language = info.strip(BLANKS + "\n")
        if not line.endswith("\n"):
            return "maybe" if self._language.startswith(language) else "no"
        if language != self._language:
            return "no"
        block = Lines(index=index, ending=FenceEnd(width, indent), trims=self._trims)
        name = self.tools[0].name
        parts = (ToolCallStart(index=index, name=name), ToolCallArguments(index=index, fragment=self._before))
        return Opening(block, parts, len(line))

    def section(self, listed: Sequence[ToolSpec]) -> str:
        return self._about + listing(self.tools)


def bash_block(tools: Sequence[ToolSpec]) -> Fenced | None:
    tool = named(tools, "bash", "command")
    return Fenced("bash", tool, '{"command":"', _BASH, trims=True) if tool else None


def unified_diff(tools: Sequence[ToolSpec]) -> Fenced | None:
    tool = patch_tool(tools)
    return Fenced("diff", tool, patch_arguments(tool, "udiff"), _DIFF, trims=False) if tool else None


def write_bash_block(call: ToolCall) -> str | None:
    match object_of(call):
        case {"command": str(command), **others} if call.name == "bash" and not others:
            return _fenced("bash", command + "\n", is_closed=not call.raw)
        case _:
            return None


def write_unified_diff(call: ToolCall) -> str | None:
    text = patch_text(call, "udiff")
    return None if text is None else _fenced("diff", text, is_closed=not call.raw)


def _fenced(language: str, text: str, *, is_closed: bool) -> str:
    """With a fence longer than any in the text."""
    width = max((len(ticks) for ticks in _TICKS.findall(text)), default=2) + 1
    fence = "`" * max(3, width)
    ended = text if text.endswith("\n") else text + "\n"
    return f"{fence}{language}\n{ended}{fence if is_closed else ''}"
