"""What bash itself starts, held against what we found in the line: nothing may be started that no segment names."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from permission_ground import Lexical

from turnwright.session.permissions.shell import segments_of
from turnwright.session.permissions.syntax import UNKNOWN

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")

WATCHED = """
command_not_found_handle() { builtin printf '%s\\n' "$1" >&9; }
PATH=/nonexistent
"""
"""No program is found, so whatever bash would start comes to the handler, which writes its name down."""

names = st.sampled_from(["aa", "bb", "'cc'", '"dd"', "e\\e", "/aa"])
words = st.sampled_from(
    [
        "x",
        "'x y'",
        '"x"',
        "$v",
        '"$v"',
        "${v:-x}",
        "*.q",
        "{a,b}",
        "-n",
        "a=b",
        "'$(bb)'",
        "\\;",
        "\\&",
        "a\\ b",
        "#",
        "''",
    ]
)
texts = st.sampled_from(["x", "$(bb x)", "`bb`", "'", '"', "\\", "$v"])


def nested(line: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {} {}".format, line, st.sampled_from(["&&", "||", ";", "|", "|&"]), line),
        st.builds("{{ {}; }}".format, line),
        st.builds("( {} )".format, line),
        st.builds("! {}".format, line),
        st.builds("if {}; then {}; else {}; fi".format, line, line, line),
        st.builds("for v in 1 2; do {}; done".format, line),
        st.builds("case x in x) {} ;; esac".format, line),
        st.builds("f() {{ {}; }}; f".format, line),
        st.builds("aa $({})".format, line),
        st.builds('aa "x $({}) y"'.format, line),
        st.builds("v=$({})".format, line),
        st.builds("v=1 {}".format, line),
        st.builds("aa <({})".format, line),
        st.builds("{} > out".format, line),
        st.builds("{} 2>&1 < /dev/null".format, line),
        st.builds("aa ${{v:-$({})}}".format, line),
        st.builds("bb <<E\n{}\n$({})\nE\n".format, texts.filter(lambda t: t in ("x", "$v")), line),
        st.builds("bb <<'E'\n$({})\nE\n".format, line),
        st.builds("eval '{}'".format, line.filter(lambda text: "'" not in text)),
        st.builds("while {}; do break; done".format, line),
        st.builds("[[ -n $({}) ]]".format, line),
        st.builds("{} \\\n  x".format, line),
        st.builds("{} # aa\n{}".format, line, line),
    )


simple = st.builds(lambda name, rest: " ".join([name, *rest]), names, st.lists(words, max_size=3))
lines = st.recursive(simple, nested, max_leaves=6)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=lines)
def test_nothing_is_started_that_no_segment_names(line: str, tmp_path: Path) -> None:
    started = _started(line, tmp_path)
    segments = segments_of(line, Lexical())
    if any(segment.kind == "unparsed" or segment.text.startswith(UNKNOWN) for segment in segments):
        return
    named = {segment.text.split(" ")[0] for segment in segments}
    assert started <= named


def _started(line: str, folder: Path) -> set[str]:
    """Builtins are not among them: they are none of the names."""
    # Of its own: what a line leaves running may still write when the next one is tried.
    with tempfile.NamedTemporaryFile("ab", dir=folder, delete=False) as out:
        subprocess.run(
            [str(BASH), "--norc", "--noprofile", "-c", f"exec 9>&{out.fileno()}\n{WATCHED}\n{line}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(out.fileno(),),
            timeout=10,
            check=False,
        )
    return {name for name in Path(out.name).read_text().splitlines() if name}
