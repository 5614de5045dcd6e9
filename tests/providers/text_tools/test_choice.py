"""Who decides how calls are written, and that nobody else pays for it."""

import subprocess
import sys

import pytest

from turnwright.providers.profiles import text_dialects
from turnwright.schema.errors import ConfigError
from turnwright.schema.settings import ToolDialect

Said = tuple[ToolDialect, ...]


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        (((), (), ()), ()),
        (((), (), ("xml-json",)), ("xml-json",)),
        (((), ("native",), ("xml-json",)), ()),
        (((), ("bash-block", "pythonic", "bash-block"), ("native",)), ("bash-block", "pythonic")),
        ((("apply-patch",), ("native",), ()), ("apply-patch",)),
        ((("native",), ("xml-json",), ()), ()),
    ],
)
def test_the_first_that_says_anything_decides(said: tuple[Said, ...], chosen: Said) -> None:
    assert text_dialects(*said) == chosen


def test_native_does_not_go_with_others() -> None:
    with pytest.raises(ConfigError, match="do not go together"):
        text_dialects(("xml-json", "native"))


def test_who_has_native_tools_does_not_load_it() -> None:
    code = "import sys, turnwright.app.models, turnwright.providers.profiles; print('text_tools' in str(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
