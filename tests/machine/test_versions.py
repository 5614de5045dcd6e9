"""Versions of a workspace: whatever is done to files, taking it back brings every byte and mode."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from undo_place import state_of

from turnwright.machine.port import OutsideWorkspace
from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.saving import Rules, Scanner
from turnwright.machine.versions.undoing import Stretch, carry_out, plan
from turnwright.schema.errors import InputError

RULES = Rules(ignore=(".git", "*.tmp"), file_bytes_max=100_000)


class Place:
    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.work.mkdir()
        self.objects = Objects(root / "versions.db")
        self.scanner = Scanner(str(self.work), self.objects, RULES)

    def save(self) -> bytes:
        return self.scanner.save(time.time_ns()).tree

    def back(self, now: bytes, *stretches: Stretch, only: tuple[str, ...] = ()) -> None:
        made = plan(now, stretches, self.objects, only)
        assert (made.in_the_way, made.not_kept) == ((), ())
        carry_out(str(self.work), made, self.objects, "mark")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.objects.close()


NAMES = st.sampled_from(["a", "b", "c/x", "c/y", "c/d/z", "Ä ö.bin", "e", os.fsdecode(b"\xff/\xfe")])
CONTENTS = st.binary(max_size=40) | st.just(b"x" * 5_000)
ACTS = st.one_of(
    st.tuples(st.just("write"), NAMES, CONTENTS),
    st.tuples(st.just("remove"), NAMES, st.just(b"")),
    st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"../outside", b"/etc/hostname"])),
    st.tuples(st.just("mode"), NAMES, st.sampled_from([b"755", b"600", b"640"])),
    st.tuples(st.just("folder"), NAMES, st.just(b"")),
)


def act(root: Path, what: str, name: str, data: bytes) -> None:
    path = root / name
    try:
        match what:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "link":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(os.fsdecode(data))
            case "mode":
                if not path.is_symlink():
                    path.chmod(int(data, 8))
            case "folder":
                path.mkdir(parents=True)
            case _:
                raise AssertionError(what)
    except OSError:
        pass  # nothing to do it to


@given(st.lists(st.lists(ACTS, max_size=6), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_step_can_be_taken_back_and_done_again(steps: list[list[tuple[str, str, bytes]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        states, trees = [state_of(place.work)], [place.save()]
        for step in steps:
            for what, name, data in step:
                act(place.work, what, name, data)
            states.append(state_of(place.work))
            trees.append(place.save())
        for at in range(len(steps), 0, -1):
            place.back(place.save(), Stretch(trees[at - 1], trees[at]))
            assert state_of(place.work) == states[at - 1]
            assert place.save() == trees[at - 1]
        place.back(trees[0], Stretch(trees[-1], trees[0]))
        assert state_of(place.work) == states[-1]
        stretches = [Stretch(before, after) for before, after in zip(trees[-2::-1], trees[:0:-1], strict=True)]
        place.back(trees[-1], *stretches)
        assert state_of(place.work) == states[0]
        place.objects.close()


def test_what_somebody_else_changed_stays(place: Place) -> None:
    (place.work / "ours").write_text("1")
    (place.work / "theirs").write_text("1")
    before = place.save()
    (place.work / "ours").write_text("2")
    after = place.save()
    (place.work / "theirs").write_text("2")
    place.back(place.save(), Stretch(before, after))
    assert state_of(place.work) == {"ours": ("file", 0o644, b"1"), "theirs": ("file", 0o644, b"2")}


def test_a_file_that_somebody_changed_since_is_in_the_way(place: Place) -> None:
    (place.work / "file").write_text("1")
    before = place.save()
    (place.work / "file").write_text("2")
    after = place.save()
    (place.work / "file").write_text("3")
    made = plan(place.save(), [Stretch(before, after)], place.objects)
    assert made.in_the_way == ("file",)


def test_what_is_ignored_is_neither_saved_nor_touched(place: Place) -> None:
    (place.work / ".git").mkdir()
    (place.work / ".git" / "index").write_text("theirs")
    before = place.save()
    (place.work / "sub").mkdir()
    (place.work / "sub" / "new").write_text("x")
    (place.work / "sub" / "left.tmp").write_text("stays")
    after = place.save()
    (place.work / ".git" / "index").write_text("changed")
    place.back(place.save(), Stretch(before, after))
    assert {path: content for path, (_, _, content) in state_of(place.work).items()} == {
        ".git": b"",
        ".git/index": b"changed",
        "sub": b"",
        "sub/left.tmp": b"stays",
    }


def test_one_file_alone(place: Place) -> None:
    for name in ("a", "b"):
        (place.work / name).write_text("1")
    before = place.save()
    for name in ("a", "b"):
        (place.work / name).write_text("2")
    after = place.save()
    place.back(after, Stretch(before, after), only=("a",))
    assert [(place.work / name).read_text() for name in ("a", "b")] == ["1", "2"]


def test_a_file_over_the_bound_is_named(place: Place) -> None:
    (place.work / "big").write_bytes(b"x" * 100_001)
    before = place.scanner.save(time.time_ns())
    (place.work / "big").unlink()
    after = place.save()
    made = plan(after, [Stretch(before.tree, after)], place.objects)
    assert (before.too_large, made.not_kept, dict(made.to_be)) == (("big",), ("big",), {})


def test_only_what_changed_is_read_also_by_another_process(place: Place) -> None:
    for number in range(50):
        (place.work / f"{number}").write_text(str(number))
    future = time.time_ns() + 10**9
    assert place.scanner.save(future).read == 50
    (place.work / "7").write_text("seven")
    assert place.scanner.save(future + 10**9).read == 1
    another = Scanner(str(place.work), place.objects, RULES)
    assert another.save(future + 2 * 10**9).read == 0


def test_a_file_changed_in_the_same_instant_is_seen(place: Place) -> None:
    """Same size, and times that the clock of the file system may not tell apart."""
    path = place.work / "file"
    path.write_text("one")
    first = place.save()
    path.write_text("two")
    assert place.save() != first


def test_a_full_store_lets_the_oldest_go(place: Place) -> None:
    trees = []
    for _ in range(8):
        (place.work / "noise").write_bytes(os.urandom(90_000))
        trees.append(place.save())
    assert place.objects.prune(300_000) >= 4
    assert place.objects.size_bytes() <= 300_000
    assert place.objects.folder(trees[-1])
    with pytest.raises(InputError, match="no longer kept"):
        place.objects.folder(trees[0])
    assert place.save() == trees[-1]


def test_a_folder_swapped_for_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "key").write_text("secret")
    before = place.save()
    (place.work / "sub").mkdir()
    (place.work / "sub" / "key").write_text("mine")
    after = place.save()
    made = plan(after, [Stretch(before, after)], place.objects)
    shutil.rmtree(place.work / "sub")
    (place.work / "sub").symlink_to(secret)
    assert plan(place.save(), [Stretch(before, after)], place.objects).in_the_way == ("sub",)
    with pytest.raises(OutsideWorkspace):
        carry_out(str(place.work), made, place.objects, "mark")
    assert (secret / "key").read_text() == "secret"
