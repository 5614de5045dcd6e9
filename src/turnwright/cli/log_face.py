"""`logging.file`: the same lines as on stderr, with their times, whatever else is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from turnwright.cli.output import Face
from turnwright.cli.wording import Level, Told, shows, told_of_end, told_of_fact, told_of_live
from turnwright.schema.errors import ConfigError, TurnwrightError
from turnwright.schema.facts import Recorded
from turnwright.schema.live import Heartbeat, LiveEvent
from turnwright.schema.masking import mask
from turnwright.views.result import Result
from turnwright.views.text import one_line, plain, when


class LogFace:
    """Lines carry the time of the last fact: those are the times that the journal has too."""

    ticks = False

    def __init__(self, path: Path, level: Level) -> None:
        self._level: Level = level
        self._at = 0
        self._conversation_id = ""
        try:
            self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
        except OSError as bad:
            raise ConfigError(
                f"The log file {path} (logging.file) cannot be written: {bad.strerror}.", remedy="Name another file."
            ) from bad

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fact(self, recorded: Recorded) -> None:
        self._at = recorded.at
        self._conversation_id = recorded.conversation_id
        self._tell(told_of_fact(recorded))

    def live(self, event: LiveEvent) -> None:
        """Heartbeats say that something is alive; a file is read when it is not."""
        if not isinstance(event, Heartbeat):
            self._tell(told_of_live(event))

    def tick(self) -> None:
        """Nothing moves."""

    def ended(self, result: Result) -> None:
        self._tell(told_of_end(result, self._conversation_id))

    def failed(self, error: TurnwrightError) -> None:
        self._write("error", mask(one_line(str(error))))

    def _tell(self, told: Told | None) -> None:
        if told is not None and shows(self._level, told.level):
            self._write(told.level, plain([told.line]).strip())

    def _write(self, level: Level, text: str) -> None:
        self._file.write(f"{when(self._at)} {level:<7} {self._conversation_id} {text}\n")
        self._file.flush()


class Both:
    """Several faces for one run."""

    def __init__(self, faces: Sequence[Face]) -> None:
        self._faces = faces
        self.ticks = any(face.ticks for face in faces)

    def fact(self, recorded: Recorded) -> None:
        for face in self._faces:
            face.fact(recorded)

    def live(self, event: LiveEvent) -> None:
        for face in self._faces:
            face.live(event)

    def tick(self) -> None:
        for face in self._faces:
            if face.ticks:
                face.tick()

    def ended(self, result: Result) -> None:
        for face in self._faces:
            face.ended(result)

    def failed(self, error: TurnwrightError) -> None:
        for face in self._faces:
            face.failed(error)
