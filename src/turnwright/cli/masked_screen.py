"""What a process of ours says on its screen, tracebacks and warnings of others included: masked as it is written."""

from __future__ import annotations

import sys
from typing import Any, TextIO, cast

from turnwright.config.environment import process_environment


class MaskedText:
    """A text stream. Everything but writing goes to the stream itself; so do bytes, which faces mask themselves."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ready = False

    def write(self, text: str) -> int:
        from turnwright.schema.masking import mask

        if not self._ready:
            self._learn()
        self._stream.write(mask(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def _learn(self) -> None:
        """Late: most of what starts has nothing to say for a while."""
        from turnwright.config.secrets import secrets_of
        from turnwright.schema.masking import Masker, learn

        self._ready = True
        learn(Masker(secrets_of(process_environment())))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_screen() -> None:
    """For the rest of this process."""
    sys.stdout = cast("TextIO", MaskedText(sys.stdout))
    sys.stderr = cast("TextIO", MaskedText(sys.stderr))
