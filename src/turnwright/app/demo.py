"""`turnwright demo`: a small real project with a failing test, a scripted model, real tools. No key, no network."""

from __future__ import annotations

import difflib
from pathlib import Path

from turnwright.kernel.ports import Model
from turnwright.providers.script import Call, Script, Step
from turnwright.providers.scripted import ScriptedModel

TASK = "The test suite fails. Find out why, fix it, and show that it passes."

PROJECT = {
    "README.md": "# slugs\n\nTurn titles into names for web pages.\n",
    "slugs.py": '''"""Titles to names for web pages."""

import re


def slug(title: str) -> str:
    """Lower case, words joined by single dashes, nothing else."""
    return re.sub(r"[^a-z0-9]", "-", title.lower())
''',
    "test_slugs.py": """import unittest

from slugs import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined_by_one_dash(self):
        self.assertEqual(slug("Hello,  World!"), "hello-world")

    def test_nothing_dangles(self):
        self.assertEqual(slug("  spaced out  "), "spaced-out")


if __name__ == "__main__":
    unittest.main()
""",
}

TEST = "python3 -m unittest -q"


def make_project(folder: Path) -> None:
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")


def demo_model() -> Model:
    """What a careful model would do here: plan, look, see the failure, mend it, see it pass."""
    steps = [
        Step(
            text="I will look at the project, run its tests, and mend what fails.",
            calls=[
                Call(
                    name="todo",
                    arguments={
                        "items": [
                            {"text": "look at the project", "status": "in_progress"},
                            {"text": "see the tests fail"},
                            {"text": "fix the cause"},
                            {"text": "see them pass"},
                        ]
                    },
                ),
                Call(name="ls", arguments={}),
            ],
        ),
        Step(
            calls=[
                Call(name="read", arguments={"path": "slugs.py"}),
                Call(name="read", arguments={"path": "test_slugs.py"}),
            ]
        ),
        Step(text="Now the tests, to see how they fail.", calls=[Call(name="bash", arguments={"command": TEST})]),
        Step(
            text="Each character becomes a dash of its own, and dashes dangle at the ends. A run of them must become "
            "one dash, and none may stay at an end.",
            calls=[
                Call(
                    name="edit",
                    arguments={
                        "path": "slugs.py",
                        "old": 'return re.sub(r"[^a-z0-9]", "-", title.lower())',
                        "new": 'return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")',
                    },
                )
            ],
        ),
        Step(calls=[Call(name="bash", arguments={"command": TEST})]),
        Step(
            text="Fixed. `slug` turned every odd character into its own dash; it now joins a run of them into one "
            "and strips the ends. Both tests failed before the change and pass after it."
        ),
    ]
    return ScriptedModel(Script(steps=steps, follow="history"))


def project_diff(folder: Path) -> str:
    """What the run changed, as a patch."""
    lines: list[str] = []
    for name, before in sorted(PROJECT.items()):
        path = folder / name
        after = path.read_text(encoding="utf-8") if path.exists() else ""
        lines += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    return "".join(lines)
