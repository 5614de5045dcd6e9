"""`turnwright undo` and `redo`: whatever a session did by shell, every byte and mode comes back, and goes again."""

from __future__ import annotations

from pathlib import Path

import pytest
from undo_place import WORST, Session, git, state_of, states_after


@pytest.mark.slow
@pytest.mark.parametrize("repository", [True, False], ids=["in git", "outside git"])
def test_ten_undos_and_ten_redos_in_a_row(tmp_path: Path, repository: bool) -> None:
    session = Session(tmp_path, repository=repository)
    states = states_after(session.work, tmp_path / "copy", WORST)
    first = git(session.work, "status", "--porcelain", "--ignored") if repository else ""
    refs = git(session.work, "for-each-ref") if repository else ""
    begun_with = state_of(session.work)
    began = session.do(WORST)
    assert state_of(session.work) == states[-1]
    newest = began
    for at in range(len(WORST) - 1, -1, -1):
        told = session.told("undo")
        assert (told["conversation"], told["done"], len(told["steps"])) == (newest, True, 1)
        newest = told["goes_on_as"]
        assert state_of(session.work) == states[at], f"after undoing step {at}: {WORST[at]}"
    assert "No step" in session.refused("undo")
    assert state_of(session.work) == begun_with
    if repository:
        assert git(session.work, "status", "--porcelain", "--ignored") == first
        assert (git(session.work, "for-each-ref"), git(session.work, "stash", "list").count("\n")) == (refs, 1)
    for at in range(1, len(WORST) + 1):
        told = session.told("redo")
        assert state_of(session.work) == states[at], f"after doing step {at - 1} again"
    assert told["goes_on_as"] == began
    assert "Nothing was undone" in session.refused("redo")
    every = session.told("undo", f"{began}:1")
    assert len(every["steps"]) == len(WORST)
    assert state_of(session.work) == begun_with
    session.told("redo")
    assert state_of(session.work) == states[-1]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repository=False)


def test_what_the_user_changed_since_is_shown_and_kept(session: Session) -> None:
    conversation = session.do(["printf 'model\\n' > README.md; printf 'model\\n' > run.sh"])
    (session.work / "README.md").write_text("user\n")
    (session.work / "notes.txt").write_text("user\n")
    before = state_of(session.work)
    said = session.refused("undo")
    assert said == (
        "turnwright: Nothing was done: README.md was changed since by somebody else, and would lose that. "
        f"See it all: turnwright undo {conversation}:2 --dry-run; do the rest all the same: --force.\n"
    )
    shown = session.place.told("undo", "--dry-run")
    assert shown.stdout == (
        f"would be undone: 1 step of {conversation}, back to 2 in {session.work}\n"
        "  restored  README.md\n"
        "  restored  run.sh\n"
        "  README.md: changed since by somebody else\n"
    )
    assert state_of(session.work) == before
    session.told("undo", "--force")
    assert [(session.work / name).read_text() for name in ("README.md", "run.sh", "notes.txt")] == [
        "# one\n",
        "#!/bin/sh\necho one\n",
        "user\n",
    ]
    session.told("redo")
    assert state_of(session.work) == before, "what was overruled is not lost either"


def test_one_file_alone_and_the_conversation_hears_of_it(session: Session) -> None:
    conversation = session.do(["printf 'model\\n' > README.md; printf 'model\\n' > src/a.py", "true"])
    told = session.told("undo", f"{conversation}:1", "src")
    assert (told["paths"], told["goes_on_as"]) == ([{"path": "src/a.py", "became": "restored"}], "")
    assert [(session.work / name).read_text() for name in ("README.md", "src/a.py")] == ["model\n", "one = 1\n"]
    note = session.place.facts(conversation)[-1]
    assert (note["code"], note["visibility"], note["said"]["text"]) == (
        "files-undone",
        "model",
        "The user has put files back as they were before: src/a.py (restored). Look before you rely on them.",
    )
    session.told("redo")
    assert (session.work / "src/a.py").read_text() == "model\n"
    assert "No step in" in session.refused("undo", conversation, "run.sh")


def test_the_conversation_goes_on_where_the_files_are(session: Session) -> None:
    conversation = session.do(["printf 1 > one", "printf 2 > two"])
    told = session.told("undo", conversation)
    facts = session.place.facts(told["goes_on_as"])
    own = [each for each in facts if each["seq"] > told["back_to"]]
    assert [(each["type"], each.get("parent"), each.get("code")) for each in own] == [
        ("conversation.opened", conversation, None),
        ("note", None, "undone"),
    ]
    results = [each["name"] for each in facts if each["type"] == "tool.ended"]
    assert (results, sorted(path.name for path in session.work.glob("*o*")))[0] == ["bash"]
    assert ((session.work / "one").exists(), (session.work / "two").exists()) == (True, False)


def test_a_point_within_a_step_takes_the_whole_step_back(session: Session) -> None:
    """The conversation is cut before it, so the files have to be as they were before it."""
    conversation = session.do(["printf 1 > one"])
    within = next(each["seq"] for each in session.place.facts(conversation) if each["type"] == "tool.started")
    told = session.told("undo", f"{conversation}:{within}")
    assert (told["paths"], told["back_to"]) == ([{"path": "one", "became": "removed"}], 2)
    shared = [each["seq"] for each in session.place.facts(told["goes_on_as"]) if each["type"] != "note"]
    assert shared == [1, 2, 3]


def test_what_changed_since_a_point_and_in_a_step(session: Session) -> None:
    conversation = session.do(["printf '# two' > README.md; chmod 700 run.sh", "rm -rf data; ln -s x y"])
    steps = [each["seq"] for each in session.place.facts(conversation) if each["type"] == "step.started"]
    shown = session.place.told("diff", f"{conversation}:{steps[0]}", "--step")
    assert shown.stdout == (
        "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# one\n+# two\n"
        "\\ No newline at end of file\n"
        "diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100700\n"
        "--- a/run.sh\n+++ b/run.sh\n"
    ).replace("--- a/run.sh\n+++ b/run.sh\n", "")
    names = session.place.told("diff", conversation, "--names").stdout.splitlines()
    assert names == [
        "README.md",
        *(f"data{below}" for below in ("", "/blob.bin", "/empty", "/link", "/sub", "/sub/closed")),
        "data/sub/closed/inside.txt",
        *("run.sh", "y"),
    ]
    patch = session.place.told("diff", f"{conversation}:{steps[1] - 1}").stdout
    assert "Binary files a/data/blob.bin and /dev/null differ (51,200 bytes)\n" in patch
    assert "new file mode 120000\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n" in patch


def test_a_patch_of_text_is_one_that_git_takes_back(tmp_path: Path) -> None:
    session = Session(tmp_path, repository=True)
    before = state_of(session.work)
    conversation = session.do(
        ["sed -i s/two/2/ src/pkg/mod.py; printf x >> notes.txt; printf '1\\n2\\n' > n; rm run.sh"]
    )
    (tmp_path / "patch").write_bytes(session.place.told("diff", conversation).stdout.encode())
    git(session.work, "apply", "-R", str(tmp_path / "patch"))
    assert state_of(session.work).keys() == before.keys()
    assert {path: content for path, (_, _, content) in state_of(session.work).items()} == {
        path: content for path, (_, _, content) in before.items()
    }


def test_nothing_is_undone_under_a_running_turn(session: Session) -> None:
    conversation = session.do(["printf 1 > one"])
    config = session.place.root / "permitted.yaml"
    host = session.place.host([{"calls": [session.place.waits]}, {"text": "done"}], "--config", str(config))
    try:
        assert f"A turn of {host.id} is running in {session.work}" in session.refused("undo", conversation)
        assert (session.work / "one").exists()
        session.place.open_gate()
        host.ended()
    finally:
        session.place.clear()
    assert session.told("undo", conversation)["paths"] == [{"path": "one", "became": "removed"}]
