"""What holds of any reply: cutting changes nothing, nothing raises, what is written reads back, long ones cost their
length."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken_replies import DIALECTS, TOOLS, cut, is_closed, joined, parts_of, reply, said

from turnwright.providers.text_tools import held
from turnwright.providers.text_tools.dialects import writers
from turnwright.providers.text_tools.literals import NotLiteral, calls_in
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Part, Text, ToolCallArguments, ToolCallEnd, ToolCallStart
from turnwright.schema.settings import TextDialect

PIECES = [
    "<tool_call>",
    "</tool_call>",
    '{"name": "bash", "arguments": {"command": "ls"}}',
    '{"name": "nope"}',
    '"',
    "\\",
    "{",
    "}",
    "```",
    "````",
    "~~~",
    "bash",
    "diff",
    "python",
    "src/a.py",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "<<<<<",
    "*** Begin Patch",
    "*** End Patch",
    "*** Add File: x",
    "+",
    "-",
    "[",
    "]",
    "(",
    ")",
    "'",
    '"""',
    "'''",
    ",",
    "=",
    "#",
    'read(path="a.py")',
    "bash(command='ls')",
    "nope(x=1)",
    "words that follow",
    " ",
    "    ",
    "\t",
    "\r",
    "\n",
    "\n",
    "\n\n",
    "é",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "\x00",
]

replies = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=30).map("".join)
blocks = st.lists(
    st.sampled_from(
        [
            '<tool_call>\n{"name": "bash", "arguments": {"command": "ls </tool_call> \\" "}}\n</tool_call>\n',
            '<tool_call>{"name": "ls"}</tool_call> <tool_call>{"name": "nope"}</tool_call>\n',
            '<tool_call>{"name": "ls"}</tool_call> </tool_call>\n',
            "```bash\nls\n\n ```\n",
            "````bash\n```\n````\n",
            "src/a.py\n\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n",
            "```diff\n--- a\n+++ b\n ```\n```\n",
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
            "[bash(command='''ls ''' \"]\"), read('a')]\n",
            "```py\n<tool_call>\n```\n",
            "Some words.\n",
            "\n",
        ]
    ),
    max_size=6,
).map("".join)
cuts = st.lists(st.integers(0, 400), max_size=20)
several = st.lists(st.sampled_from(DIALECTS), min_size=1, max_size=6, unique=True)


@settings(max_examples=400)
@given(several, st.one_of(replies, blocks), cuts)
def test_cutting_changes_nothing(dialects: list[TextDialect], text: str, at: list[int]) -> None:
    whole = joined(parts_of(dialects, [text]))
    assert joined(parts_of(dialects, cut(text, at))) == whole
    assert joined(parts_of(dialects, list(text))) == whole


def test_what_was_held_behind_a_call_is_said() -> None:
    text = '<tool_call>{"name": "ls"}</tool_call></tool_call> more\n'
    assert joined(parts_of(["xml-json"], list(text))) == joined(parts_of(["xml-json"], [text])) == [Text(text)]


@settings(max_examples=300)
@given(several, st.one_of(replies, blocks, st.text()))
def test_any_text_is_text_and_calls(dialects: list[TextDialect], text: str) -> None:
    """Nothing raises; what is no call is still there, in order; what never closed cannot be run."""
    parts = parts_of(dialects, [text])
    rest = text
    for part in parts:
        if isinstance(part, Text) and part.text.strip() and part.text != "nope(x=1)\n":
            _, found, rest = rest.partition(part.text)
            assert found
    if not any(isinstance(part, ToolCallStart) for part in parts):
        assert "".join(part.text for part in parts if isinstance(part, Text)) == text
    _, calls = reply(dialects, text)
    if not is_closed(parts):
        assert calls[-1].problem
    for call in calls:
        assert isinstance(json.loads(call.arguments), dict)


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=30)
texts = st.lists(st.one_of(lines, st.sampled_from(["```", "  ````", "", "</tool_call>", '"""', "\\"])), max_size=6).map(
    "\n".join
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
keys = st.sampled_from(["path", "first_line", "x", "_y2"])


def marked(mark: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{mark}{line}\n" for line in text.split("\n"))


def patches(
    dialect: str, form: str, text: st.SearchStrategy[str]
) -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
    return text.map(lambda text: (dialect, "patch", {"format": form, "text": text}))


written = st.one_of(
    st.tuples(st.sampled_from(["xml-json", "pythonic"]), st.just("read"), st.dictionaries(keys, values, max_size=3)),
    texts.map(lambda text: ("bash-block", "bash", {"command": text})),
    patches("unified-diff", "udiff", texts.map(lambda text: text + "\n")),
    patches(
        "apply-patch", "apply_patch", texts.map(lambda text: f"*** Begin Patch\n{marked('+')(text)}*** End Patch\n")
    ),
    patches(
        "search-replace",
        "search_replace",
        texts.map(lambda text: f"a/b.py\n<<<<<<< SEARCH\n{text}\n=======\n{text}\n>>>>>>> REPLACE\n"),
    ),
)


@settings(max_examples=300)
@given(written, st.integers(1, 3))
def test_what_is_written_reads_back(one: tuple[TextDialect, str, dict[str, Any]], times: int) -> None:
    dialect, name, arguments = one
    (write,) = writers([dialect])
    text = write(ToolCall(id="c", name=name, arguments=json.dumps(arguments)))
    assert text is not None
    assert said([dialect], "\n".join(["Words.", *[text] * times])) == ("Words.\n", [(name, arguments)] * times)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_the_reader_of_literals_never_raises_anything_else(text: str) -> None:
    try:
        calls = calls_in(f"[read({text})]", {"read": ("path",)})
    except NotLiteral:
        return
    for call in calls:
        assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize(
    "text",
    ["[read(" + "[" * 5000 + "]" * 5000 + ")]", f"[read({'9' * 5000})]", "[read(1e999)]", "[read('\\U00110000')]"],
)
def test_literals_that_are_too_much(text: str) -> None:
    with pytest.raises(NotLiteral):
        calls_in(text, {"read": ("path",)})


LONG: list[tuple[TextDialect, str, str]] = [
    ("xml-json", '<tool_call>\n{"name": "bash", "arguments": {"command": "', "a\\n"),
    ("xml-json", '<tool_call>\n"', "</tool_call>  x"),
    ("xml-json", "", "<tool_call>{}</tool_call>"),
    ("xml-json", "", '<tool_call>{"name": "ls"}</tool_call>\n'),
    ("xml-json", "", "```\n~~~\n"),
    ("bash-block", "```bash\n", "make\n``\n"),
    ("bash-block", "```bash\n", "x"),
    ("pythonic", "[bash(command='''", "a'' \\' \""),
    ("pythonic", "[read(", "["),
    ("pythonic", "", " "),
    ("search-replace", "", "word\n\n"),
    ("search-replace", "", "*"),
    ("search-replace", "a.py\n<<<<<<< SEARCH\n", "=======\n>>>>>>> REPLAC\n"),
]


def cost_s(dialect: TextDialect, text: str, size: int) -> float:
    began = time.process_time()
    parts_of([dialect], (text[at : at + size] for at in range(0, len(text), size)))
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize("case", LONG, ids=[f"{number}-{dialect}" for number, (dialect, _, _) in enumerate(LONG)])
def test_long_replies_cost_their_length(case: tuple[TextDialect, str, str], size: int) -> None:
    """Four times the text takes four times as long; what is quadratic takes sixteen."""
    dialect, start, again = case
    short, long = (start + again * (chars // len(again)) for chars in (125_000, 500_000))
    ratios = (cost_s(dialect, long, size) / (cost_s(dialect, short, size) + 0.005) for _ in range(3))
    assert any(ratio < 9 for ratio in ratios)


def test_a_block_that_is_too_long_is_a_call_that_cannot_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "CALL_CHARS_MAX", 100)
    start = '<tool_call>\n{"name": "bash", "arguments": {"command": "'
    text = f'{start}{"x" * 200}"}}}}\n</tool_call>\nSo.'
    expected: list[Part] = [
        ToolCallStart(index=1_000_000, name="bash"),
        ToolCallArguments(index=1_000_000, fragment=text[:-3]),
        ToolCallEnd(index=1_000_000),
        Text("So."),
    ]
    for pieces in ([text], list(text), cut(text, [101, 150])):
        assert joined(parts_of(["xml-json"], pieces, TOOLS)) == expected
    unfinished = reply(["xml-json"], text[:180])[1]
    assert [(call.name, call.raw) for call in unfinished] == [("bash", text[:180])]
