"""`--detach`: the turn goes on in a process of its own, without this terminal, and this one says where to find it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from turnwright.app.engine import make_private
from turnwright.cli.exit_codes import of_error
from turnwright.config.load import Loaded
from turnwright.schema.errors import InputError, MachineError, TurnwrightError
from turnwright.schema.ids import ConversationId
from turnwright.schema.masking import mask
from turnwright.views.text import one_line

LOG = "host.log"


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="detached"):
    """What is said of a turn that was left in the background, once its conversation is on record."""

    conversation_id: ConversationId
    pid: int
    log: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="failed"):
    """There will be no turn, and why."""

    error: str
    code: int


class Away:
    """In the process that was left behind: what it tells the one that the user still sees."""

    def __init__(self, log: Path, to_user: int) -> None:
        self.log = log
        self.told = False
        self._to_user = to_user

    def tell(self, conversation_id: ConversationId, run_folder: Path) -> None:
        """The log moves into the run folder, under whatever was logged before."""
        run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = run_folder / LOG
        if log.exists():  # of an earlier host of this conversation
            log = run_folder / f"host-{os.getpid()}.log"
        self.log.rename(log)
        self._say(Begun(conversation_id=conversation_id, pid=os.getpid(), log=str(log)))

    def fail(self, error: TurnwrightError) -> None:
        self._say(Failed(error=mask(one_line(str(error))), code=of_error(error)))

    def _say(self, message: Begun | Failed) -> None:
        self.told = True
        os.write(self._to_user, msgspec.json.encode(message))
        os.close(self._to_user)


def detached(args: argparse.Namespace, loaded: Loaded, work: Callable[[Away], int]) -> int:
    """Call it before there is a thread or an event loop. Returns twice: here when the turn has begun, and in the
    process that was left behind when it has ended."""
    log = _new_log(loaded.folders.data)
    from_host, to_user = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if (child := os.fork()) == 0:
        _leave(log, to_user)
        return _in_background(Away(log, to_user), work)
    os.close(to_user)
    os.waitpid(child, 0)
    with os.fdopen(from_host, "rb") as said:
        answer = said.read()
    return _told(args, log, answer)


def _new_log(data: Path) -> Path:
    log = data / "runs" / f"host-{os.getpid()}.log"
    try:
        make_private(data)
        log.parent.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    except OSError as bad:
        raise InputError(f"The log {log} cannot be written: {bad.strerror}.", remedy="Check its folder.") from bad
    return log


def _leave(log: Path, to_user: int) -> None:
    """A session of its own, no terminal to get one back from, and no descriptor of whoever started us."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, log, os.O_WRONLY | os.O_APPEND),
        (2, log, os.O_WRONLY | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
    os.closerange(3, to_user)
    os.closerange(to_user + 1, os.sysconf("SC_OPEN_MAX"))


def _in_background(away: Away, work: Callable[[Away], int]) -> int:
    try:
        return work(away)
    except TurnwrightError as error:
        if away.told:
            raise
        away.fail(error)
        away.log.unlink(missing_ok=True)
        return of_error(error)


def _told(args: argparse.Namespace, log: Path, answer: bytes) -> int:
    if not answer:
        raise MachineError(
            "The process that was to run the turn died before it began.", remedy=f"Its last words are in {log}."
        )
    said = msgspec.json.decode(answer, type=Begun | Failed)
    if isinstance(said, Failed):
        print(f"turnwright: {said.error}", file=sys.stderr)
        return said.code
    if args.output != "text":
        print(answer.decode())
        return 0
    print(said.conversation_id)
    print(
        f"It runs in the background, in process {said.pid}.\n"
        f"Watch it with: turnwright follow {said.conversation_id}\n"
        f"Steer, queue, answer and stop are commands too. Its log: {said.log}",
        file=sys.stderr,
    )
    return 0
