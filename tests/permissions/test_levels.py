"""The levels of autonomy, as the command line tells them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwright.cli.main import main
from turnwright.schema.permissions import Permissions, Rule, RuleLayer
from turnwright.session.permissions.matching import matches, may_match
from turnwright.session.permissions.syntax import UNKNOWN

CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "look": ("bash", {"command": "ls && git status"}),
    "read": ("read", {"path": "a.txt"}),
    "edit": ("edit", {"path": "a.txt", "old": "a", "new": "b"}),
    "redirect": ("bash", {"command": "echo a > a.txt"}),
    "command": ("bash", {"command": "make test"}),
    "fetch": ("bash", {"command": "curl https://pypi.example/x"}),
    "commit": ("bash", {"command": "git commit -m x"}),
    "keys": ("bash", {"command": "cat ~/.ssh/id_rsa"}),
    "hook": ("write", {"path": ".git/hooks/pre-commit", "content": "x"}),
    "force": ("bash", {"command": "git push --force"}),
    "riddle": ("bash", {"command": "ls 'x"}),
    "foreign": ("mcp__files__write", {"path": "x"}),
}
#             without a sandbox: 0 to 4                  held by namespaces: 2 and 3
TABLE = {
    "look": ("allow", "allow", "allow", "allow", "allow", "allow", "allow"),
    "read": ("allow", "allow", "allow", "allow", "allow", "allow", "allow"),
    "edit": ("deny", "allow", "allow", "allow", "allow", "allow", "allow"),
    "redirect": ("deny", "allow", "allow", "allow", "allow", "allow", "allow"),
    "command": ("deny", "ask", "ask", "ask", "allow", "allow", "allow"),
    "fetch": ("deny", "ask", "ask", "allow", "allow", "allow", "allow"),
    "commit": ("deny", "ask", "ask", "allow", "allow", "ask", "allow"),
    "keys": ("ask", "ask", "ask", "ask", "allow", "ask", "ask"),
    "hook": ("deny", "ask", "ask", "ask", "allow", "ask", "ask"),
    "force": ("deny", "ask", "ask", "ask", "allow", "ask", "ask"),
    "riddle": ("deny", "ask", "ask", "ask", "allow", "ask", "ask"),
    "foreign": ("deny", "ask", "ask", "ask", "allow", "ask", "ask"),
}
COLUMNS = [*((str(level), "none") for level in range(5)), ("2", "namespaces"), ("3", "kernel-lite")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TURNWRIGHT_PERMISSIONS__AUTONOMY")
    monkeypatch.setenv("TURNWRIGHT_MACHINE__SANDBOX", "off")  # on any machine the same is shown
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.mark.parametrize("what", CALLS)
def test_each_level(what: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text("permissions: {hosts: ['*.example']}\n")
    tool, arguments = CALLS[what]
    found = []
    for autonomy, tier in COLUMNS:
        words = ["--tool", tool, "--input", json.dumps(arguments), "--autonomy", autonomy, "--tier", tier, "--json"]
        code = main(["permissions", "check", *words])
        said = json.loads(capsys.readouterr().out)
        assert code == (0 if said["action"] == "allow" else 58)
        found.append(said["action"])
    assert tuple(found) == TABLE[what]


def decided(capsys: pytest.CaptureFixture[str], command: str, *more: str) -> tuple[str, str, str]:
    main(["permissions", "check", "--tool", "bash", "--input", json.dumps({"command": command}), "--json", *more])
    said = json.loads(capsys.readouterr().out)
    return said["action"], said["segment"], said["rule"]


def test_rules_of_the_user(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = home / "config.yaml"
    config.write_text(
        "permissions:\n  rules:\n"
        "    - {tool: bash, pattern: 'make *', action: allow}\n"
        "    - {tool: bash, pattern: 'git push*', action: deny}\n"
        "    - {tool: bash, pattern: 'rm *', action: deny}\n"
        "    - {tool: bash, pattern: 'rm notes.txt', action: allow}\n"
    )

    def rule(text: str) -> str:
        return f"rule `{text}` ({config}:2)"

    level = "autonomy 2: a command that may do anything, and there is no sandbox"
    assert decided(capsys, "make") == ("allow", "make", rule("allow bash make *"))
    assert decided(capsys, "make test && ls") == ("allow", "make test", rule("allow bash make *"))
    assert decided(capsys, "make test; cmake .") == ("ask", "cmake .", level)
    for line in (
        "git push",
        "env -i git push",
        "/usr/bin/git push",
        "git -C . push",
        "sh -c 'git push'",
        "xargs git push",
    ):
        assert decided(capsys, line, "--autonomy", "4")[::2] == ("deny", rule("deny bash git push*")), line
    assert decided(capsys, "rm notes.txt") == ("allow", "rm notes.txt", rule("allow bash rm notes.txt"))
    assert decided(capsys, "rm a", "--autonomy", "4") == ("deny", "rm a", rule("deny bash rm *"))
    maybe = "may mean it, which nobody can tell"
    assert decided(capsys, "git $X", "--autonomy", "4")[0::2] == ("ask", f"{rule('deny bash git push*')} {maybe}")
    assert decided(capsys, "rm 'x", "--autonomy", "4")[0] == "deny"
    assert decided(capsys, "ls 'x", "--autonomy", "4")[0] == "ask"
    assert decided(capsys, "make $X")[0] == "allow"
    assert decided(capsys, "$X test")[0] == "ask"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("git push", "git push", True),
        ("git push", "git pushes", False),
        ("git push*", "git pushes", True),
        ("npm test *", "npm test", True),
        ("npm test *", "npm tests", False),
        ("*--force*", "git push --force x", True),
        ("a*b*c", "axbxc", True),
        ("a*b*c", "acb", False),
        ("aa*aa", "aaa", False),
        ("a.c", "abc", False),
    ],
)
def test_patterns(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("git push*", f"git {UNKNOWN}", True),
        ("git push*", f"{UNKNOWN} push", True),
        ("git push*", f"echo {UNKNOWN}", False),
        ("git push", f"git {UNKNOWN}", True),
        ("git push", f"git {UNKNOWN} x", False),
        ("*--force", f"git {UNKNOWN} x", False),
        ("*--force", f"git push {UNKNOWN}", True),
    ],
)
def test_what_only_the_shell_knows(pattern: str, text: str, expected: bool) -> None:
    assert may_match(pattern, text) is expected


def test_rules_are_said_in_words() -> None:
    assert str(Rule(pattern="a b", action="ask")) == "ask * a b"
    assert Permissions().autonomy == 2
    assert RuleLayer(name="user", rules=()).narrows is False


SCRIPT = """
follow: history
steps:
  - calls: [{bash: {command: "ls && python3 -c 'print(1)'"}}]
  - text: I could not.
"""


def test_a_run_where_nobody_sits_says_what_it_was_denied(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = home / "script.yaml"
    script.write_text(SCRIPT)
    words = ["run", "go", "--model", f"scripted/{script}", "--output", "json"]
    code = main(words)
    result = json.loads(capfd.readouterr().out)
    assert (code, result["reason"], result["is_error"], result["text"]) == (58, "needs-user", True, "I could not.")
    (denial,) = result["denials"]
    assert (denial["tool"], denial["segment"]) == ("bash", "python3 -c print(1)")
    assert denial["rule"] == "autonomy 2: a command that may do anything, and there is no sandbox"
    assert "--autonomy" in result["remedy"]
    assert main([*words, "--autonomy", "4"]) == 0


def test_other_rules_on_what_has_been(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = home / "script.yaml"
    script.write_text(SCRIPT.replace("ls && ", ""))
    assert main(["run", "go", "--model", f"scripted/{script}", "--output", "json", "--autonomy", "4"]) == 0
    capfd.readouterr()
    rules = home / "tried.yaml"
    seen = []
    for text in ("autonomy: 4", "autonomy: 2", "rules: [{tool: bash, pattern: 'python3*', action: deny}]"):
        rules.write_text(f"permissions: {{{text}}}\n")
        assert main(["permissions", "backtest", "last", "--rules", str(rules), "--json"]) == 0
        (call,) = json.loads(capfd.readouterr().out)["calls"]
        seen.append((call["then"], call["now"], call["change"]))
    assert seen == [("ran", "allow", ""), ("ran", "ask", "new question"), ("ran", "deny", "new denial")]
    main(["permissions", "backtest", "last", "--rules", str(rules)])
    assert "1 calls: 1 × new denial" in capfd.readouterr().out
