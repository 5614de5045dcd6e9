"""A connection to our own program at the far side: it is sent there, started, asked, and heard."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from turnwright.machine.ssh.bundle import LENGTH_DIGITS, NO_PYTHON, PYTHON_OLDEST, SHELL, bundle, first_words
from turnwright.machine.ssh.faults import raised_from
from turnwright.machine.ssh.frames import BadFrame, Frames, encoded
from turnwright.schema.errors import MachineError

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

CONNECT_S = 20.0
START_S = 20.0
KEEPALIVE_S = 15.0
KEEPALIVES_MISSED_MAX = 3
HEARD_EVERY_S = 20.0
"""How often the far side is told that we are there (see `far_side.UNHEARD_S`)."""
_NOISE_BYTES_MAX = 256 * 1024
_READ_BYTES = 256 * 1024
_SAID_BYTES = 500

Asked: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = tuple[dict[str, Any], bytes]
Heard: TypeAlias = Callable[[dict[str, Any], bytes], None]
NOTHING: Asked = MappingProxyType({})


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host as `ssh` would be given it. How to reach it stands in the configuration of ssh."""

    name: str
    user: str = ""
    """Empty: whom the configuration names, else whoever we are here."""
    config: tuple[Path, ...] = ()
    """Files to read instead of the user's own."""


class LeftBehind(msgspec.Struct, frozen=True):
    """Our program of a connection that was lost: it may not know yet."""

    pid: int
    mark: str
    home: str


class Lost(MachineError):
    """The connection is gone, and what was asked last may have been done."""


class Link:
    def __init__(
        self, host: Host, connection: SSHClientConnection, process: SSHClientProcess[bytes], mark: str
    ) -> None:
        self.host = host
        self.why_lost = ""
        self.left: LeftBehind | None = None
        self._mark = mark
        self._connection = connection
        self._process = process
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._heard: dict[int, Heard] = {}
        self._said = b""
        self._listening = asyncio.ensure_future(self._listen())
        self._hearing_errors = asyncio.ensure_future(self._hear_errors())
        self._telling = asyncio.ensure_future(self._tell_that_we_are_here())

    async def open(self, asked: Asked, left: LeftBehind | None) -> str:
        """The workspace's real path there."""
        before = msgspec.to_builtins(left) if left is not None else None
        answer, _ = await self.ask("open", {**asked, "left_behind": before})
        self.left = LeftBehind(int(answer["pid"]), self._mark, str(answer["home"]))
        return str(answer["workspace"])

    async def ask(self, do: str, asked: Asked = NOTHING, body: bytes = b"", hear: Heard | None = None) -> Answer:
        """The answer, or what the far side raised. `hear` is told whatever comes unasked under this request's number,
        and last, that the connection is gone, with an empty head."""
        if self.why_lost:
            raise self._lost()
        self._numbers += 1
        number = self._numbers
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        if hear is not None:
            self._heard[number] = hear
        try:
            await self._send({"id": number, "do": do, **asked}, body)
            head, answer_body = await answered
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                self._process.stdin.write(encoded({"id": number, "do": "cancel"}))
            raise
        finally:
            self._waiting.pop(number, None)
        if "fault" in head:
            self._heard.pop(number, None)
            raise raised_from(head["fault"], self.host.name)
        return {**head["answer"], "number": number}, answer_body

    def hear_no_more(self, number: int) -> None:
        self._heard.pop(number, None)

    async def close(self) -> None:
        """The far side ends what it runs when its input closes."""
        self._telling.cancel()
        if not self.why_lost:
            with contextlib.suppress(OSError):
                self._process.stdin.write_eof()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._listening), 2.0)
        self._listening.cancel()
        await _hung_up(self._connection)

    async def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        try:
            self._process.stdin.write(encoded(head, body))
            await self._process.stdin.drain()
        except OSError as gone:
            self._is_lost(str(gone) or type(gone).__name__)
            raise self._lost() from gone

    async def _listen(self) -> None:
        import asyncssh

        frames = Frames()
        why = "its end was closed"
        try:
            while piece := await self._process.stdout.read(_READ_BYTES):
                for head, body in frames.feed(piece):
                    self._take(head, body)
        except (OSError, asyncssh.Error, BadFrame, KeyError, TypeError, ValueError) as failed:
            why = str(failed) or type(failed).__name__
        await self._hearing_errors
        self._is_lost(f"{why}; it said last: {self._said.decode('utf-8', 'replace').strip()}" if self._said else why)

    async def _hear_errors(self) -> None:
        """What our own program says where it breaks; without a reader it would be held up by saying it."""
        import asyncssh

        with contextlib.suppress(OSError, asyncssh.Error):
            while piece := await self._process.stderr.read(_READ_BYTES):
                self._said = (self._said + piece)[-_SAID_BYTES:]

    def _take(self, head: dict[str, Any], body: bytes) -> None:
        if "of" in head:
            hear = self._heard.get(head["of"])
            if hear is not None:
                hear(head, body)
            return
        waiting = self._waiting.get(head["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result((head, body))

    def _is_lost(self, why: str) -> None:
        if self.why_lost:
            return
        self.why_lost = why
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._lost())
        heard, self._heard = self._heard, {}
        for hear in heard.values():
            hear({}, b"")
        self._telling.cancel()
        self._connection.abort()

    def _lost(self) -> Lost:
        return Lost(
            f"The connection to {self.host.name} was lost ({self.why_lost}); whether what was asked last was done is "
            "unknown.",
            remedy="The next call connects again.",
        )

    async def _tell_that_we_are_here(self) -> None:
        while True:
            await asyncio.sleep(HEARD_EVERY_S)
            await self.ask("hear")


async def connect(host: Host) -> Link:
    """Known hosts only, no agent or X11 forwarded, nothing asked: whoever is to answer is not there."""
    try:
        import asyncssh
    except ImportError:
        raise MachineError(
            f"Working on {host.name} needs asyncssh, which is not installed.", remedy="pip install 'turnwright[ssh]'"
        ) from None
    try:
        async with asyncio.timeout(CONNECT_S):
            options = asyncssh.SSHClientConnectionOptions(
                host=host.name,
                config=[str(path) for path in host.config] or (),
                username=host.user or (),
                agent_forwarding=False,
                x11_forwarding=False,
                password=None,
                kbdint_auth=False,
                password_auth=False,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES_MISSED_MAX,
            )
            if options.known_hosts is None:
                raise MachineError(
                    f"The configuration of ssh would take any host for {host.name} (UserKnownHostsFile none).",
                    remedy="Name a file of known hosts there, or leave the line out.",
                )
            connection = await asyncssh.connect(host.name, options=options)
    except TimeoutError:
        raise MachineError(
            f"{host.name} did not let us in within {CONNECT_S:g} s.", remedy=f"Try: ssh {host.name} true"
        ) from None
    except asyncssh.HostKeyNotVerifiable as unknown:
        raise MachineError(
            f"The host key of {host.name} is not among the known hosts ({unknown.reason}).",
            remedy=f"Connect once by hand, and compare the key it shows: ssh {host.name}",
        ) from unknown
    except asyncssh.PermissionDenied as denied:
        raise MachineError(
            f"{host.name} refused us: {denied.reason}.",
            remedy="A key that needs no typing is wanted: one of the agent, or an IdentityFile without a passphrase.",
        ) from denied
    except (OSError, asyncssh.Error, asyncssh.ConfigParseError, asyncssh.KeyImportError) as failed:
        raise MachineError(
            f"{host.name} cannot be reached: {str(failed) or type(failed).__name__}.",
            remedy=f"Try: ssh {host.name} true",
        ) from failed
    try:
        return await _started(host, connection)
    except BaseException:
        await _hung_up(connection)
        raise


async def _started(host: Host, connection: SSHClientConnection) -> Link:
    """Our program is there and speaks."""
    import asyncssh

    data, _ = bundle()
    mark = f"turnwright-{secrets.token_hex(16)}"
    try:
        async with asyncio.timeout(START_S):
            process = await connection.create_process(SHELL, encoding=None)
            process.stdin.write(first_words(mark))
            if not await _marked(process, mark.encode()):
                raise await _no_start(host, process)
            process.stdin.write(str(len(data)).zfill(LENGTH_DIGITS).encode() + data)
            await process.stdin.drain()
    except TimeoutError:
        raise MachineError(f"Our own program did not start on {host.name} within {START_S:g} s.") from None
    except (OSError, asyncssh.Error) as failed:
        raise MachineError(f"Our own program could not be started on {host.name}: {failed}.") from failed
    return Link(host, connection, process, mark)


async def _hung_up(connection: SSHClientConnection) -> None:
    connection.abort()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(connection.wait_closed(), 1.0)


async def _marked(process: SSHClientProcess[bytes], mark: bytes) -> bool:
    """Passes over whatever a login writes by itself."""
    seen = 0
    while seen < _NOISE_BYTES_MAX:
        line = await process.stdout.readline()
        if not line:
            return False
        seen += len(line)
        if line.rstrip(b"\n").endswith(mark):
            return True
    return False


async def _no_start(host: Host, process: SSHClientProcess[bytes]) -> MachineError:
    process.stdin.write_eof()
    ended = await process.wait()
    if ended.exit_status == NO_PYTHON:
        wanted = ".".join(map(str, PYTHON_OLDEST))
        return MachineError(
            f"{host.name} has no Python {wanted} or newer, by the name of python3 or python{wanted}.",
            remedy="Install one there; nothing else is needed.",
        )
    return MachineError(
        f"Our own program could not be started on {host.name} (exit code {ended.exit_status}).",
        remedy=f"Try: ssh {host.name} python3 --version",
    )
