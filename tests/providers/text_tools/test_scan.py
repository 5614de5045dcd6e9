"""Every dialect in tables: what is a call, what stays text, what is a call that cannot be run."""

from typing import Any

import pytest
from spoken_replies import DIALECTS, TOOLS, parts_of, reply, said, tools

from turnwright.providers.text_tools.dialects import bound
from turnwright.providers.text_tools.scan import begin, step
from turnwright.schema.parts import Part, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from turnwright.schema.settings import TextDialect

LS = ("bash", {"command": "ls"})
READ = ("read", {"path": "a.py"})

XML = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
XML_LINE = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
SEARCH = "src/a.py\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n ```\n-old\n+new\n"
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n *** End Patch\n*** End Patch\n"

Case = tuple[str, TextDialect, str, str, list[Any]]

CALLS: list[Case] = [
    ("on three lines", "xml-json", XML, "", [LS]),
    ("on one line", "xml-json", XML_LINE + "\n", "", [LS]),
    ("between words", "xml-json", f"I look.\n{XML}\nThen more.", "I look.\nThen more.", [LS]),
    ("two blocks", "xml-json", f"{XML}\n{XML_LINE}", "", [LS, LS]),
    ("two on a line", "xml-json", f"{XML_LINE} {XML_LINE}\n!", "!", [LS, LS]),
    ("indented and with CRLF", "xml-json", "  <tool_call>\r\n" + XML_LINE[11:-12] + "\r\n</tool_call>\r\n", "", [LS]),
    (
        "spread out",
        "xml-json",
        '<tool_call>\n{\n "name": "bash",\n "arguments": {"command": "ls"}\n}\n</tool_call>',
        "",
        [LS],
    ),
    (
        "the sentinel in a string",
        "xml-json",
        '<tool_call>{"name": "bash", "arguments": {"command": "echo \\"</tool_call>\\" </tool_call>"}}</tool_call>',
        "",
        [("bash", {"command": 'echo "</tool_call>" </tool_call>'})],
    ),
    ("parameters", "xml-json", XML.replace("arguments", "parameters"), "", [LS]),
    ("no arguments", "xml-json", '<tool_call>{"name": "ls"}</tool_call>', "", [("ls", {})]),
    ("null arguments", "xml-json", '<tool_call>{"name": "ls", "arguments": null}</tool_call>', "", [("ls", {})]),
    (
        "arguments as text",
        "xml-json",
        '<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>',
        "",
        [LS],
    ),
    ("a block", "bash-block", "I look.\n```bash\nls\n```\n", "I look.\n", [LS]),
    ("two lines", "bash-block", "```bash\ncd a\n\nls\n```", "", [("bash", {"command": "cd a\n\nls"})]),
    ("a longer fence", "bash-block", "````bash\ncat <<E\n```\nE\n````", "", [("bash", {"command": "cat <<E\n```\nE"})]),
    ("content indented further", "bash-block", "```bash\n  ```\nls\n```", "", [("bash", {"command": "  ```\nls"})]),
    ("an indented block", "bash-block", "   ``` bash \n   ls\n   ```", "", [("bash", {"command": "   ls"})]),
    ("nothing in it", "bash-block", "```bash\n```", "", [("bash", {"command": ""})]),
    ("quotes", "bash-block", '```bash\necho "a\\n"\t\x01\n```', "", [("bash", {"command": 'echo "a\\n"\t\x01'})]),
    (
        "a block",
        "search-replace",
        f"Now:\n{SEARCH}",
        "Now:\n",
        [("patch", {"format": "search_replace", "text": SEARCH})],
    ),
    (
        "a line between",
        "search-replace",
        SEARCH.replace("py\n", "py\n\n"),
        "",
        [("patch", {"format": "search_replace", "text": SEARCH.replace("py\n", "py\n\n")})],
    ),
    (
        "the second names no file",
        "search-replace",
        SEARCH + "Then also:\n" + SEARCH.removeprefix("src/a.py\n"),
        "Then also:\n",
        [("patch", {"format": "search_replace", "text": SEARCH})] * 2,
    ),
    (
        "the second below it",
        "search-replace",
        SEARCH + "\n" + SEARCH.removeprefix("src/a.py\n"),
        "\n",
        [("patch", {"format": "search_replace", "text": SEARCH})] * 2,
    ),
    (
        "an empty part, other widths",
        "search-replace",
        "`b.py`:\n<<<<< SEARCH\n=====\n>>>>>>> REPLACE\n>>>>> REPLACE",
        "",
        [
            (
                "patch",
                {"format": "search_replace", "text": "`b.py`:\n<<<<< SEARCH\n=====\n>>>>>>> REPLACE\n>>>>> REPLACE\n"},
            )
        ],
    ),
    (
        "a block",
        "unified-diff",
        f"So:\n```diff\n{DIFF}```\nDone",
        "So:\nDone",
        [("patch", {"format": "udiff", "text": DIFF})],
    ),
    ("a patch", "apply-patch", f"So:\n{PATCH}Done", "So:\nDone", [("patch", {"format": "apply_patch", "text": PATCH})]),
    ("at the end", "apply-patch", PATCH.rstrip(), "", [("patch", {"format": "apply_patch", "text": PATCH})]),
    ("a call", "pythonic", 'I look.\n[bash(command="ls")]\n', "I look.\n", [LS]),
    ("two calls", "pythonic", "[bash(command='ls'), read(path='a.py')]", "", [LS, READ]),
    ("without a name", "pythonic", '[read("a.py")]', "", [READ]),
    ("brackets in a string", "pythonic", "[bash(command=\"echo ')]' [\")]", "", [("bash", {"command": "echo ')]' ["})]),
    (
        "over lines",
        "pythonic",
        '[bash(\n  command="""ls\n"a" ]\n""",\n),\n]',
        "",
        [("bash", {"command": 'ls\n"a" ]\n'})],
    ),
    (
        "all kinds of literals",
        "pythonic",
        "[bash(command='a' r'\\d' \"\\x41\\u00e9\\n\", timeout_s=1_0, x=-1.5,"
        " y=[None, (True,), {'k': (false)}], z=())]",
        "",
        [("bash", {"command": "a\\dAé\n", "timeout_s": 10, "x": -1.5, "y": [None, [True], {"k": False}], "z": []})],
    ),
    ("one of them unknown", "pythonic", '[bash(command="ls"), nope(x=1)]\n', "nope(x=1)\n", [LS]),
]

TEXT: list[tuple[str, TextDialect, str]] = [
    ("in the middle of a line", "xml-json", f"You write {XML_LINE}\n"),
    ("followed by words", "xml-json", f"{XML_LINE} is how it is done.\nYes."),
    ("two, followed by words", "xml-json", f"{XML_LINE}{XML_LINE} or so\n"),
    ("a mention", "xml-json", "<tool_call> and </tool_call> are sentinels.\n"),
    ("in a fence", "xml-json", f"```xml\n{XML}\n```\nSo."),
    ("in a fence of tildes", "xml-json", f"~~~\n{XML}\n```\n{XML}\n~~~~\n"),
    ("in a fence that is never closed", "xml-json", f"````\n```\n{XML}\n"),
    ("indented as code", "xml-json", f"    {XML_LINE}\n"),
    ("a tool that is not there", "xml-json", f"{XML_LINE.replace('bash', 'nope')}\n\nSo."),
    ("and cannot be read", "xml-json", '<tool_call>{"name": "nope", "arguments": {</tool_call>\n'),
    ("and is not the end", "xml-json", f"{XML.replace('bash', 'nope')}\nSo."),
    ("another element", "xml-json", "<tool_calls>\n<b>\n"),
    ("half a sentinel", "xml-json", "<tool_c"),
    ("another language", "bash-block", "```sh\nls\n```\n```python\nls()\n```\n"),
    ("inside of another fence", "bash-block", "````md\n```bash\nls\n```\n````\n"),
    ("inside of a fence as long", "bash-block", "```md\n```bash\nls\n```\n"),
    ("a fence in a line", "bash-block", "so: ```bash\nls\n"),
    ("code in a line", "bash-block", "```bash```\n``bash\nls\n"),
    ("a language that begins so", "bash-block", "```bashrc\nls\n```\n"),
    ("too far in", "bash-block", "    ```bash\n    ls\n    ```\n"),
    ("in a fence", "search-replace", f"```\n{SEARCH}```\n"),
    ("in a line", "search-replace", "src/a.py <<<<<<< SEARCH\n"),
    ("no marker", "search-replace", "<<<<<<< SEARCHING\n<<<< SEARCH\n<<<<<<< S E\n"),
    ("a path and nothing", "search-replace", "src/a.py\n\n\nb.py\nwords here\n\nc.py"),
    ("a header", "search-replace", "### src/a.py\n```py\nx\n```\n"),
    ("in a fence", "apply-patch", f"```\n{PATCH}```\n"),
    ("indented", "apply-patch", f" {PATCH}"),
    ("in a line", "apply-patch", "It begins with *** Begin Patch\n*** Begin Patches\n"),
    ("in a fence", "unified-diff", f"~~~\n```diff\n{DIFF}```\n~~~"),
    ("in a fence", "pythonic", '```\n[bash(command="ls")]\n```'),
    ("followed by words", "pythonic", '[bash(command="ls")] lists files.\n'),
    ("a link", "pythonic", "[read](a.py)\n[bash]: x\n[ ] todo\n[1, 2]\n"),
    ("a tool that is not there", "pythonic", "[nope(x=1)]\n[re(1)]\n"),
    ("in a line", "pythonic", 'So [bash(command="ls")]\n'),
]

MALFORMED: list[tuple[str, TextDialect, str, str, str | None]] = [
    ("cut off", "xml-json", XML[:-14], "bash", XML[:-14]),
    ("cut off before its name", "xml-json", '<tool_call>\n{"na', "unnamed", '<tool_call>\n{"na'),
    ("the sentinel alone", "xml-json", "<tool_call>", "unnamed", "<tool_call>\n"),
    ("an unknown one cut off", "xml-json", '<tool_call>\n{"name": "nope"', "nope", '<tool_call>\n{"name": "nope"'),
    ("not JSON", "xml-json", "<tool_call>\n{'name': 'bash'}\n</tool_call>", "unnamed", "{'name': 'bash'}\n"),
    (
        "a bracket too few",
        "xml-json",
        XML.replace("}}", "}"),
        "bash",
        '{"name": "bash", "arguments": {"command": "ls"}\n',
    ),
    (
        "a quote too many",
        "xml-json",
        '<tool_call>{"name": "bash", "arguments": {"command": "a"b"}}</tool_call>  \n',
        "bash",
        '{"name": "bash", "arguments": {"command": "a"b"}}',
    ),
    ("a list", "xml-json", "<tool_call>\n[1]\n</tool_call>", "unnamed", "[1]\n"),
    ("arguments are a list", "xml-json", '<tool_call>{"name": "bash", "arguments": [1]}</tool_call>', "bash", "[1]"),
    ("cut off", "bash-block", "```bash\nrm -rf build", "bash", '{"command":"rm -rf build'),
    ("the fence alone", "bash-block", "```bash", "bash", '{"command":"'),
    ("closed by too few", "bash-block", "````bash\nls\n```\n", "bash", '{"command":"ls\\n```'),
    ("cut off", "search-replace", SEARCH[:-3], "patch", None),
    ("cut off", "unified-diff", "```diff\n--- a", "patch", '{"format":"udiff","text":"--- a'),
    ("cut off", "apply-patch", "*** Begin Patch\n+", "patch", '{"format":"apply_patch","text":"*** Begin Patch\\n+'),
    ("cut off", "pythonic", '[bash(command="ls"', "bash", '[bash(command="ls"'),
    ("an expression", "pythonic", "[bash(command=x)]", "bash", "[bash(command=x)]"),
    (
        "an operator",
        "pythonic",
        "[bash(command='a' * 9), read(path='a')]",
        "bash",
        "[bash(command='a' * 9), read(path='a')]",
    ),
    ("twice the same", "pythonic", "[bash(command='a', command='b')]", "bash", "[bash(command='a', command='b')]"),
    ("half a character", "pythonic", r"[bash(command='\ud83d')]", "bash", r"[bash(command='\ud83d')]"),
]


def ids(cases: list[Any]) -> list[str]:
    return [f"{case[1]}: {case[0]}" for case in cases]


@pytest.mark.parametrize("case", CALLS, ids=ids(CALLS))
def test_calls(case: Case) -> None:
    _, dialect, text, words, calls = case
    assert said([dialect], text) == (words, calls)


@pytest.mark.parametrize("case", TEXT, ids=ids(TEXT))
def test_text(case: tuple[str, TextDialect, str]) -> None:
    _, dialect, text = case
    assert said([dialect], text) == (text, [])
    assert all(isinstance(part, Text) for part in parts_of([dialect], list(text)))


@pytest.mark.parametrize("case", MALFORMED, ids=ids(MALFORMED))
def test_malformed_calls_are_never_text_and_never_run(case: tuple[str, TextDialect, str, str, str | None]) -> None:
    _, dialect, text, name, raw = case
    words, calls = reply([dialect], text)
    assert words == ""
    (call,) = calls
    assert call.problem.startswith("The arguments")
    assert (call.name, call.arguments, raw is None or call.raw == raw) == (name, "{}", True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_offered_is_all_text(dialect: TextDialect) -> None:
    text = f'{XML}\n```bash\nls\n```\n{SEARCH}```diff\n{DIFF}```\n{PATCH}[bash(command="ls")]\n'
    assert said([dialect], text, []) == (text, [])


def test_a_block_for_a_tool_that_is_not_offered_stays_text() -> None:
    text = f"```bash\nls\n```\n```diff\n{DIFF}```\n{PATCH}"
    assert said(["bash-block", "unified-diff", "apply-patch"], text, tools("read")) == (text, [])


def test_search_replace_goes_to_edit_where_there_is_no_patch() -> None:
    dialect: list[TextDialect] = ["search-replace"]
    text = f"{SEARCH}**b.py**:\n{SEARCH[9:]}"
    edit = {"old": "old\n", "new": "new\n"}
    assert said(dialect, text, tools("edit")) == (
        "", [("edit", {"path": "src/a.py", **edit}), ("edit", {"path": "b.py", **edit})]
    )  # fmt: skip
    assert said(dialect, text, tools("write")) == (text, [])
    for size in range(SEARCH.index("SEARCH\n") + 7, len(SEARCH) - 8):
        ((name, raw),) = said(dialect, SEARCH[:size], tools("edit"))[1]
        assert (name, raw.startswith('{"path":"src/a.py","old":"')) == ("edit", True)


def test_dialects_together() -> None:
    text = f'{XML}\nand\n```bash\nls\n```\n{SEARCH}[bash(command="ls")]\n'
    words, calls = said(["bash-block", "search-replace", "xml-json"], text)
    assert words == 'and\n[bash(command="ls")]\n'
    assert [name for name, _ in calls] == ["bash", "bash", "patch"]


def test_text_is_passed_on_as_it_comes() -> None:
    """Held back is only what could still become a sentinel."""
    state = begin(bound(DIALECTS, TOOLS).notations)
    deltas = [
        "I",
        " look",
        " at",
        " it.\n",
        "<",
        "b",
        ">\n",
        "``",
        "`py",
        "\n",
        "<tool_call>",
        "\n",
        "``",
        "`\n",
        "*",
        "* x y",
    ]
    passed = [
        "",
        "I look",
        " at",
        " it.\n",
        "",
        "",
        "",
        "",
        "<b>\n```py",
        "\n",
        "<tool_call>",
        "\n",
        "``",
        "`\n",
        "",
        "** x y",
    ]
    seen: list[str] = []
    for delta in deltas:
        state, parts = step(state, delta)
        seen.append("".join(part.text for part in parts if isinstance(part, Text)))
    assert seen == passed


def test_a_command_is_passed_on_as_it_comes() -> None:
    state = begin(bound(["bash-block"], TOOLS).notations)
    made: list[list[Part]] = []
    for delta in ["```bash\n", "make", " all\n", "``", "x", "\n```", "\n"]:
        state, parts = step(state, delta)
        made.append(parts)

    def fragment(text: str) -> ToolCallArguments:
        return ToolCallArguments(index=1_000_000, fragment=text)

    assert made == [
        [ToolCallStart(index=1_000_000, name="bash"), fragment('{"command":"')],
        [fragment("make")],
        [fragment(" all")],
        [],
        [fragment("\\n``x")],
        [],
        [fragment('"}'), ToolCallEnd(index=1_000_000)],
    ]
