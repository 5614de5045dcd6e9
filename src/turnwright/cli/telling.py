"""What became of something that the user said to a conversation."""

from __future__ import annotations

import sys

import msgspec

from turnwright.app.speaking import Spoken


def tell_spoken(spoken: Spoken, then: str, *, as_json: bool) -> None:
    """The letter's id alone on stdout, for scripts; `then` is what a running turn does with it."""
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(spoken) + b"\n")
        return
    print(spoken.inbox_id)
    sys.stdout.flush()
    waits = (
        f"No turn of {spoken.conversation_id} is running: it waits on disk for the next one.\n"
        f"Start that with: turnwright resume {spoken.conversation_id} --continue"
    )
    print(then if spoken.running else waits, file=sys.stderr)
