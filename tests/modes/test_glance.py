"""What a run shows of itself while it writes, and of what it used when it ends."""

from __future__ import annotations

from modes_place import Place

from turnwright.kernel.preview import preview_of

TEN_LINES = "".join(f"line {number}\\n" for number in range(1, 11))
WRITING = f"""
steps:
  - calls: [{{write: {{path: long.txt, content: "{TEN_LINES}"}}}}]
  - calls: [{{edit: {{path: long.txt, old: "line 3", new: "{"x" * 60}"}}}}]
  - text: Done.
"""


def test_writes_and_edits_are_seen_as_they_begin(place: Place) -> None:
    ran = place.run(script=WRITING)
    assert ran.code == 0
    written, edited = ran.of("tool-preview")
    assert (written["name"], written["path"], written["more_lines"]) == ("write", "long.txt", 2)
    assert written["lines"] == [f"line {number}" for number in range(1, 9)]
    assert (edited["old"], edited["new"]) == ("line 3", "x" * 49 + "…")
    kinds = [line["type"] for line in ran.lines]
    started = kinds.index("tool.started")
    assert kinds[started : started + 2] == ["tool.started", "tool-preview"]


def test_what_only_reads_has_no_preview(place: Place) -> None:
    ran = place.run(script="- calls: [{ls: {}}]\n- text: Done.")
    assert (ran.code, ran.of("tool-preview")) == (0, [])


def test_a_preview_counts_what_it_leaves_out() -> None:
    def of(content: str) -> tuple[int, int]:
        shown = preview_of("c", "write", {"path": "p", "content": content})
        return len(shown.lines), shown.more_lines

    assert of("") == (0, 0)
    assert of("a\nb") == (2, 0)
    assert of("a\n" * 8) == (8, 0)
    assert of("a\n" * 9) == (8, 1)
    assert of("a\n" * 8 + "b") == (8, 1)
    assert of("a\n" * 100_000) == (8, 99_992)


METERED = """
steps:
  - text: "0123456789"
    usage: {input: 3000, output: 100, cache_read: 2000}
    delay_s: 0.0
"""


def test_the_last_line_says_what_was_used(place: Place) -> None:
    (place.root / "script.yaml").write_text(METERED)
    (place.home / "config.yaml").write_text("{}")
    code, told = place.tell("run", "do it", "--model", f"scripted/{place.root}/script.yaml", "--cwd", str(place.work))
    assert code == 0
    assert "stop · 1 step · 3.0k in (2.0k cached), 100 out · $? · " in told
