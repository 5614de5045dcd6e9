"""`turnwright`: finds the command, and turns whatever ends it into one sentence and an exit code.

Nothing is imported up here that `--version` does not need.
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["--version"], ["-V"]):
        from turnwright import __version__

        print(f"turnwright {__version__}")
        return 0
    if arguments is None:
        from turnwright.cli.masked_screen import mask_screen

        mask_screen()
    try:
        code = _guarded(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        from turnwright.cli.exit_codes import ExitCode

        return ExitCode.CANCELLED
    except BrokenPipeError:
        # Whoever read us has gone. Without this the interpreter complains once more while it closes stdout.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _guarded(words: list[str]) -> int:
    from turnwright.schema.errors import TurnwrightError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(words)
    except TurnwrightError as error:
        return _told(error)


def _dispatch(words: list[str]) -> int:
    from turnwright.cli.parser import named_command, overview, parser_of

    if not words or words[0] in ("--help", "-h", "help"):
        print(overview(), end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    name, rest = named_command(words)
    parser, command = parser_of(name)
    return command.run(parser.parse(rest))


def _told(error: Exception) -> int:
    from turnwright.cli.exit_codes import of_error
    from turnwright.schema.errors import TurnwrightError
    from turnwright.schema.masking import mask
    from turnwright.views.text import one_line

    assert isinstance(error, TurnwrightError)
    said = mask(one_line(str(error)))
    # What is wrong with the command line names the command itself.
    print(said if said.startswith("turnwright") else f"turnwright: {said}", file=sys.stderr)
    return of_error(error)
