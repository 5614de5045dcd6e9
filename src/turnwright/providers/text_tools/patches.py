"""`apply-patch` and `search-replace`, and what all dialects of patches share: their text goes to the patch tool."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwright.providers.text_tools.lines import Lines, Sentinel
from turnwright.providers.text_tools.notation import (
    BLANKS,
    Opening,
    Opens,
    begins,
    escaped,
    is_line,
    listing,
    named,
    object_of,
)
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import ToolCallArguments, ToolCallStart
from turnwright.schema.prompt import ToolSpec

BEGIN, END = "*** Begin Patch", "*** End Patch"
_SEARCH = re.compile(r"(<{5,9}) SEARCH>?[ \t\r]*\n")
_SEARCH_BEGINS = re.compile(r"<{0,9}|<{5,9}(?P<word> S?E?A?R?C?H?)|<{5,9} SEARCH>?[ \t\r]*")

_APPLY_PATCH = """\
To change files, write a patch, its first and last line alone at the beginning of a line and not inside a code fence:
*** Begin Patch
*** Update File: src/name.py
@@ def main():
 import sys
-print("old")
+print("new")
*** Add File: notes.txt
+Every line of a new file begins with a plus.
*** Delete File: obsolete.txt
*** End Patch
Lines of a section begin with a space (context), - or +; after @@ stands a line that the section is below. The patch \
is the text of this tool:
"""
_SEARCH_REPLACE = """\
To change a file, write its path alone on a line and directly below it a SEARCH/REPLACE block, not inside a code fence:
src/name.py
<<<<<<< SEARCH
print("old")
=======
print("new")
>>>>>>> REPLACE
The lines to search for must stand in the file exactly so, and in one place only. An empty SEARCH part makes a new \
file. Write as many blocks as you need. A block is a call of this tool:
"""


class ApplyPatch:
    wants_line_above = False

    def __init__(self, tool: ToolSpec) -> None:
        self.tools = (tool,)

    def opens(self, line: str, above: str, index: int) -> Opens:
        if not line.endswith("\n"):
            return "maybe" if begins(line, BEGIN) else "no"
        if not is_line(line, BEGIN):
            return "no"
        tool = self.tools[0]
        before = patch_arguments(tool, "apply_patch") + escaped(BEGIN + "\n")
        parts = (ToolCallStart(index=index, name=tool.name), ToolCallArguments(index=index, fragment=before))
        return Opening(Lines(index=index, ending=Sentinel(END), keeps_ending=True), parts, len(line))

    def section(self, listed: Sequence[ToolSpec]) -> str:
        return _APPLY_PATCH + listing(self.tools)


class SearchReplace:
    """Each block is a call: of the patch tool, or of `edit` where that is what is offered."""

    wants_line_above = True

    def __init__(self, tool: ToolSpec) -> None:
        self.tools = (tool,)

    def opens(self, line: str, above: str, index: int) -> Opens:
        if not line.endswith("\n"):
            return "maybe" if _may_open(line) else "no"
        opened = _SEARCH.fullmatch(line)
        if opened is None:
            return "no"
        tool = self.tools[0]
        width = len(opened[1])
        last = Sentinel(">" * width + " REPLACE")
        if tool.name == "edit":
            new = Lines(index=index, ending=last)
            block = Lines(index=index, ending=Sentinel("=" * width), after='","new":"', then=new)
            before = f'{{"path":"{escaped(_path_of(above))}","old":"'
        else:
            block = Lines(index=index, ending=last, keeps_ending=True)
            before = patch_arguments(tool, "search_replace") + escaped(above + "<" * width + " SEARCH\n")
        parts = (ToolCallStart(index=index, name=tool.name), ToolCallArguments(index=index, fragment=before))
        return Opening(block, parts, len(line), takes_above=True)

    def section(self, listed: Sequence[ToolSpec]) -> str:
        return _SEARCH_REPLACE + listing(self.tools)


def apply_patch(tools: Sequence[ToolSpec]) -> ApplyPatch | None:
    tool = patch_tool(tools)
    return ApplyPatch(tool) if tool else None


def search_replace(tools: Sequence[ToolSpec]) -> SearchReplace | None:
    tool = patch_tool(tools) or named(tools, "edit", "path", "old", "new")
    return SearchReplace(tool) if tool else None


def write_apply_patch(call: ToolCall) -> str | None:
    text = patch_text(call, "apply_patch")
    return None if text is None else text.removesuffix("\n")


def write_search_replace(call: ToolCall) -> str | None:
    match object_of(call):
        case {"path": str(path), "old": str(old), "new": str(new), **others} if call.name == "edit" and not others:
            last = "" if call.raw else ">>>>>>> REPLACE"
            return f"{path}\n<<<<<<< SEARCH\n{_ended(old)}=======\n{_ended(new)}{last}"
    text = patch_text(call, "search_replace")
    return None if text is None else text.removesuffix("\n")


def patch_tool(tools: Sequence[ToolSpec]) -> ToolSpec | None:
    return named(tools, "patch", "text")


def patch_arguments(tool: ToolSpec, form: str) -> str:
    """The beginning of the arguments of a patch, up to its text. Naming the format makes its errors exact."""
    given = f'"format":"{form}",' if "format" in tool.parameters["properties"] else ""
    return f'{{{given}"text":"'


def patch_text(call: ToolCall, form: str) -> str | None:
    """The text of a patch in this format, if the call is nothing more than that."""
    match object_of(call):
        case {"text": str(text), "format": str(said), **others} if call.name == "patch" and said == form:
            return None if others else text
        case _:
            return None


def _may_open(line: str) -> bool:
    found = _SEARCH_BEGINS.fullmatch(line)
    return found is not None and (not found["word"] or " SEARCH".startswith(found["word"]))


def _path_of(line: str) -> str:
    """As the patch tool reads it: without the marks that models put around a name."""
    return line.strip(BLANKS + "\n").strip("*`").rstrip(":").lstrip("#").strip().strip("*`")


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
