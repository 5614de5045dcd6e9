"""What servers and a project's `.mcp.json` may say, thrown at whatever reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from turnwright.config.mcp_servers import entry_of_server, server_of_project
from turnwright.schema.mcp import RemoteTool
from turnwright.tools.mcp.arguments import problem_of
from turnwright.tools.mcp.names import NAME_MAX, tool_name
from turnwright.tools.mcp.stdio import Lines, Messages
from turnwright.tools.mcp.texts import remote_tool
from turnwright.tools.shorten import plain

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.sampled_from(
        [
            b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"x"}}\n',
            b'{"jsonrpc":"2.0","id":{},"result":3}\n',
            b"Welcome!\r\n",
            b"\n",
            b'{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"\xff"}}\n',
            b'{"jsonrpc":"2.0",',
        ]
    )
    | st.binary(max_size=20),
    max_size=12,
).map(b"".join)

KEYWORDS = st.sampled_from(
    [
        *(
            "type",
            "properties",
            "required",
            "items",
            "anyOf",
            "allOf",
            "not",
            "if",
            "then",
            "$ref",
            "$defs",
            "$dynamicRef",
        ),
        *(
            "enum",
            "const",
            "pattern",
            "patternProperties",
            "additionalProperties",
            "minLength",
            "multipleOf",
            "$schema",
        ),
        *("dependentSchemas", "unevaluatedProperties", "prefixItems", "contains", "propertyNames", "$id", "format"),
    ]
)
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["object", "string", "#", "#/$defs/a", "http://127.0.0.1:9/x", "(a+)+$", "[", 0, 1, -1, None, True, [], {}, ["a"]]
)
SCHEMAS = st.recursive(
    st.dictionaries(KEYWORDS, VALUES, max_size=4),
    lambda inner: st.dictionaries(
        KEYWORDS, inner | st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner), max_size=4
    ),
    max_leaves=10,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), ANY | st.just("a" * 40 + "!"), max_size=3)
DESCRIBED = st.fixed_dictionaries(
    {},
    optional={
        "name": ANY,
        "title": ANY,
        "description": ANY,
        "inputSchema": SCHEMAS | ANY,
        "annotations": st.none() | st.dictionaries(st.sampled_from(["readOnlyHint", "title"]), ANY),
    },
)
WRITTEN = st.dictionaries(
    st.sampled_from(["type", "command", "args", "env", "cwd", "url", "headers", "disabled", "more"]),
    ANY | st.sampled_from(["${HOME}", "${NO:-x}", "${", "http", "sse", "http://h", "~nobody/x", "\x00"]),
)

Same = Callable[[Callable[[Iterable[bytes]], Any], bytes, list[int]], Any]


def read_lines(same: Same) -> Callable[[tuple[bytes, list[int]]], None]:
    def check(given: tuple[bytes, list[int]]) -> None:
        def messages(chunks: Iterable[bytes]) -> list[str]:
            lines, read = Lines(), Messages()
            found = [read.read(line) for chunk in chunks for line in lines.feed(chunk)]
            return [each.message.model_dump_json() for each in found if each is not None]

        same(messages, *given)

    return check


def hold_arguments(given: tuple[dict[str, Any], dict[str, Any]]) -> None:
    arguments, schema = given
    began = time.process_time()
    assert isinstance(problem_of(arguments, schema), str)
    assert time.process_time() - began < 1


def describe(described: dict[str, Any]) -> None:
    read = remote_tool(described)
    if isinstance(read, RemoteTool):
        assert read.parameters["type"] == "object"
        name = tool_name("a server", read.name)
        assert name.isascii() and len(name) <= NAME_MAX
        assert plain(read.description) == read.description


def configure(written: Any) -> None:
    entry = entry_of_server("s", server_of_project(written), ".mcp.json", Path("/work"), {"HOME": "/root"})
    assert entry.problem or bool(entry.settings.command) != bool(entry.settings.url)
