"""The comparison itself: loose about what differs between runs, and about nothing else."""

from __future__ import annotations

import pytest
from documents import Block, Command, blocks_of, commands_of, missing, outputs_of, script_of

SAID = """c_0mwmpjl6j42akatlteyr  demo in /tmp/some/where
→ bash  python3 -m unittest
← bash  failed · exit 1 · 381ms
stop · 6 steps · 3.4k in · $?
"""


@pytest.mark.parametrize(
    "shown",
    [
        [],
        ["c_00000000000000000000  demo in /var/other/place"],
        ["← bash  failed · exit 2 · 1.2s", "stop · 7 steps · 12 in · $0.0100"],
        ["→ bash  …", "…", "stop · 6 steps · 3.4k in · $?"],
        ["… exit 1 …"],
    ],
)
def test_what_came_is_found(shown: list[str]) -> None:
    assert missing(shown, SAID) is None


@pytest.mark.parametrize(
    ("shown", "lacking"),
    [
        (["← bash  ok · exit 1 · 381ms"], "← bash  ok · exit 1 · 381ms"),
        (["← bash  failed", "stop"], "← bash  failed"),
        (["stop · 6 steps · 3.4k in · $?", "→ bash  …"], "→ bash  …"),
        (["stop · 6 steps · 3.4k in · $?"] * 2, "stop · 6 steps · 3.4k in · $?"),
    ],
)
def test_what_did_not_come_in_its_place_is_missing(shown: list[str], lacking: str) -> None:
    assert missing(shown, SAID) == lacking


TEXT = """
<!-- file: a.yaml -->
```yaml
a: 1
```

```python
print(1)
```
```text
1
```

<!-- not run: it takes an hour -->
```console
$ sleep 3600
```

1. In a list:

   ```console
   $ false
   $ echo $?
   1
   ```
"""


def test_blocks() -> None:
    assert list(blocks_of(TEXT)) == [
        Block(kind="yaml", body="a: 1\n", line=3, file="a.yaml"),
        Block(kind="python", body="print(1)\n", line=7, output="1\n"),
        Block(kind="text", body="1\n", line=10),
        Block(kind="console", body="$ sleep 3600\n", line=15, skipped="it takes an hour"),
        Block(kind="console", body="$ false\n$ echo $?\n1\n", line=21),
    ]


def test_commands_share_a_shell_and_keep_their_exit_codes() -> None:
    commands = commands_of(list(blocks_of(TEXT))[-1])
    assert commands == [Command("false", (), 22, may_fail=True), Command("echo $?", ("1",), 23)]
    assert script_of(commands).startswith("false\n")
    assert outputs_of("\n--8<-- done 1\n1\n\n--8<-- done 0\n") == [("\n", 1), ("1\n\n", 0)]
