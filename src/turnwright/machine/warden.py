"""The processes beside the runtime under which every command runs, so that nothing a command starts can outlive it.

    runtime ── keeper ── warden ── command ── whatever it starts
                    └─── warden (waiting for a command)

Run as a script by `keeper.py`, alone and single-threaded: forking from the runtime itself, with its threads and its
size, would be neither safe nor quick. It imports little, because its start is on the way of the first command.

A **warden** runs one command at a time. It is a subreaper: whatever a descendant does (`setsid`, double fork), when
its parent dies it becomes the warden's child. So "the processes of this command" is an exact set, and killing until
there are no children left leaves nothing. The warden does so on request, and when its channel to the runtime closes,
which the kernel does for a runtime killed with -9.

The **keeper** forks wardens on request and is a subreaper as well: it inherits and kills what a warden leaves that
was itself killed. It ends when the runtime does.

Without subreapers (macOS) a sweep reaches the command's group and what still hangs from it by parents; a grandchild
that left both before (double fork with setsid) escapes it.

Messages. To the keeper: one byte and an int32: `n` one more warden, `k` kill that warden. From it: a warden's pid with
the descriptor of its channel, or a negative errno. To a warden: length, descriptors and a marshalled request, then
one byte each: `t` ask all to end, `k` kill all. From it: one byte and two int32, see `_report`.

A command in a sandbox is started by others, who report to the warden when it runs, and when it has ended, which is not
when they have.
"""

# pathlib would double the time this takes to start.
# ruff: noqa: PTH110, PTH123, PTH208
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # not `signal`, for the same reason
import _socket  # nor `socket`
import gc
import marshal
import os
import select
import struct
import sys

AnyInts = set[int] | frozenset[int]

IGNORED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)
"""A stray signal must not take away the wardens; they end when the runtime does."""

RESET = (*IGNORED, _signal.SIGPIPE, _signal.SIGXFSZ)
"""What a command gets back, because ignored signals stay ignored through exec. Python itself ignores the last two."""

DESCRIPTORS_MAX = 12
REPORT_FD = 100
"""Under which a command that is confined finds the way to its warden (see `sandbox/inside.py`)."""
KEEPER_ORDER = struct.Struct("<ci")
WARDEN_READY = struct.Struct("<i")
WARDEN_REPORT = struct.Struct("<cii")

_BESIDE = 2
"""Processes of a sandbox that are not the command's: its pid 1, and whoever waits for the command there."""
_ROUND_MS = 5
_SWEEP_ROUNDS_MAX = 600
_SUBREAPER, _SET_NAME = 36, 15  # prctl


def main() -> None:
    gc.disable()
    for number in IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _take_in_orphans(b"turnwright-keep")
    _keep(_socket.socket(fileno=int(sys.argv[1])))


# The keeper


def _keep(control: _socket.socket) -> None:
    wardens: set[int] = set()
    child_died = _wake_on_child()
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(child_died, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == child_died:
                _bury(wardens, child_died)
            elif not _obey(control, wardens):
                _finish(wardens)
                return


def _obey(control: _socket.socket, wardens: set[int]) -> bool:
    """One order of the runtime. False when it is gone."""
    try:
        order = _receive(control, KEEPER_ORDER.size)
        if order is None:
            return False
        kind, pid = KEEPER_ORDER.unpack(order)
        if kind == b"n":
            _make_warden(control, wardens)
        elif pid in wardens:
            os.kill(pid, _signal.SIGKILL)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _make_warden(control: _socket.socket, wardens: set[int]) -> None:
    ours, runtimes = _socket.socketpair()
    try:
        pid = os.fork()
    except OSError as failed:
        ours.close()
        runtimes.close()
        control.sendall(WARDEN_READY.pack(-(failed.errno or 1)))
        return
    if pid == 0:
        control.close()
        runtimes.close()
        _watch(ours)
    wardens.add(pid)
    ours.close()
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", runtimes.fileno()))
    control.sendmsg([WARDEN_READY.pack(pid)], [rights])
    runtimes.close()


def _bury(wardens: set[int], child_died: int) -> None:
    _drain(child_died)
    orphaned = False
    for pid, code in _reap()[0].items():
        if pid in wardens:
            wardens.discard(pid)
            orphaned |= code != 0
    if orphaned:
        _sweep(child_died, spared=wardens)


def _finish(wardens: set[int]) -> None:
    """The runtime is gone. Each warden notices by itself and kills its own; what then still lives is killed here."""
    child_died = _wake_on_child()
    for _ in range(_SWEEP_ROUNDS_MAX):
        _bury(wardens, child_died)
        if not wardens:
            break
        select.select([child_died], [], [], _ROUND_MS / 1000)
    _sweep(child_died)


# A warden


def _watch(channel: _socket.socket) -> None:
    """Never returns: this is a forked process."""
    try:
        _take_in_orphans(b"turnwright-ward")
        child_died = _wake_on_child()
        while (request := _receive_request(channel)) is not None:
            leader = _launch(channel, *request)
            if leader is None or not _guard(channel, child_died, *leader):
                break
            os.chdir("/")  # a warden that waits must not keep a file system busy
    except BaseException:  # noqa: BLE001 - not swallowed: it goes to stderr, which the runtime reads
        sys.excepthook(*sys.exc_info())
        os._exit(70)
    os._exit(0)


def _receive_request(channel: _socket.socket) -> tuple[dict[str, list[bytes]], list[int]] | None:
    """The command, and descriptors of its working folder, stdout and, where apart, stderr; then, where the request has
    `talks`, stdin; last as many as it has `extra`, which are numbers: what they must be called."""
    flags = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
    length, ancillary, _, _ = channel.recvmsg(4, _socket.CMSG_SPACE(4 * DESCRIPTORS_MAX), flags)
    fds = [fd for _, _, raw in ancillary for fd in struct.unpack(f"{len(raw) // 4}i", raw)]
    for fd in fds:
        os.set_inheritable(fd, False)
    payload = _receive(channel, int.from_bytes(length, "little")) if len(length) == 4 else None
    return None if payload is None else (marshal.loads(payload), fds)


def _launch(channel: _socket.socket, request: dict[str, list[bytes]], fds: list[int]) -> tuple[int, int | None] | None:
    """The leader, and whence reports about the command come, where it is not the leader itself."""
    env = dict(pair.split(b"=", 1) for pair in request["env"])
    extra = request.get("extra", [])
    own, handed = fds[: len(fds) - len(extra)], fds[len(fds) - len(extra) :]
    moves = [(fd, int(number)) for fd, number in zip(handed, extra, strict=True)]
    reports: int | None = None
    try:
        os.fchdir(own[0])
        os.environb[b"PATH"] = env.get(b"PATH", b"/usr/bin:/bin")  # where posix_spawnp looks
        outputs, stdin = (own[1:-1], own[-1]) if "talks" in request else (own[1:], None)
        if "confined" in request:
            reports, theirs = os.pipe()
            fds.append(theirs)
            moves.append((theirs, REPORT_FD))
        leader = _start(request["argv"], env, outputs[0], outputs[-1], stdin, moves)
    except OSError as failed:
        _report(channel, b"F", failed.errno or 1)
        return None
    finally:
        for fd in set(fds):
            os.close(fd)
    if reports is not None:
        stays = "stays" in request
        kind, code = _first_word(reports, stays=stays)
        if kind != b"s" or not stays:
            os.close(reports)
            reports = None
        if kind != b"s":
            _report(channel, b"F" if kind == b"f" else b"R", code)
            return None
    _report(channel, b"S", leader)
    return leader, reports


def _first_word(reports: int, *, stays: bool) -> tuple[bytes, int]:
    """Of whoever starts the command. Where nobody stays beside it, their end closes when the command takes their place,
    unless a second word comes."""
    kind, code, _ = _told(reports)
    if kind == b"s" and not stays:
        kind, code, _ = _told(reports)
        kind = kind or b"s"
    return kind, code


def _told(reports: int) -> tuple[bytes, int, int]:
    """One report; an empty one where nobody is left who could make any."""
    data = os.read(reports, WARDEN_REPORT.size)
    kind, first, second = WARDEN_REPORT.unpack(data) if len(data) == WARDEN_REPORT.size else (b"", 0, 0)
    return kind, first, second


def _start(
    argv: list[bytes],
    env: dict[bytes, bytes],
    stdout: int,
    stderr: int,
    stdin: int | None,
    moves: list[tuple[int, int]],
) -> int:
    """Own session and group; stdin is ours, which is /dev/null, unless one is given; every other descriptor closes on
    exec. Whoever confines a command goes on ignoring signals that ask to end: they are for the command."""
    if sys.platform == "linux":
        files = [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
        if stdin is not None:
            files.append((os.POSIX_SPAWN_DUP2, stdin, 0))
        files += [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in moves]
        defaults = () if moves else RESET
        return os.posix_spawnp(argv[0], argv, env, file_actions=files, setsid=True, setsigmask=(), setsigdef=defaults)
    else:  # noqa: RET505 - without it mypy holds the line below for unreachable
        return start_by_fork(argv, env, stdout, stderr, stdin)


def start_by_fork(
    argv: list[bytes], env: dict[bytes, bytes], stdout: int, stderr: int, stdin: int | None = None
) -> int:
    """The same where posix_spawn cannot make a session."""
    failed_r, failed_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            if stdin is not None:
                os.dup2(stdin, 0)
            for number in RESET:
                _signal.signal(number, _signal.SIG_DFL)
            os.execvpe(argv[0], argv, env)
        except OSError as failed:
            os.write(failed_w, (failed.errno or 1).to_bytes(4, "little"))
        os._exit(127)
    os.close(failed_w)
    code = int.from_bytes(os.read(failed_r, 4), "little")
    os.close(failed_r)
    if code:
        os.waitpid(pid, 0)
        raise OSError(code, os.strerror(code))
    return pid


def _guard(channel: _socket.socket, child_died: int, leader: int, reports: int | None) -> bool:
    """Report the command's end; then, or when told, kill what is left. Whether it ended by itself, leaving nothing."""
    poller = select.poll()
    beside = 0 if reports is None else _BESIDE
    # Reports last: what was reported before the leader ended is then seen with its end.
    for fd in (channel.fileno(), child_died, reports):
        if fd is not None:
            poller.register(fd, select.POLLIN)
    running = True
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if reports is not None and reports in ready:
            kind, code, others = _told(reports)
            poller.unregister(reports)
            os.close(reports)
            reports = None
            if kind == b"x":
                running = False
                _report(channel, b"X", code, int(others > 0))
        if child_died in ready:
            _drain(child_died)
            ended, left = _reap(leader)
            if leader in ended and running:
                running = False
                _report(channel, b"X", ended[leader], int(left))
            if not running and not left:
                _report(channel, b"D", 0)
                return True
        if channel.fileno() in ready:
            if channel.recv(1) == b"t":
                _signal_all(_signal.SIGTERM, leader)
                _signal_all(_signal.SIGCONT, leader)
                continue
            if reports is not None:
                os.close(reports)
            _end(channel, child_died, leader, running=running, beside=beside)
            return False


def _end(channel: _socket.socket, child_died: int, leader: int, *, running: bool, beside: int) -> None:
    killed, code, left = _sweep(child_died, leader)
    if running:
        _report(channel, b"X", code, 0)
    _report(channel, b"D", max(0, len(killed - {leader}) - beside), int(left))


def _report(channel: _socket.socket, kind: bytes, first: int, second: int = 0) -> None:
    """`S` started: pid. `F` could not start: errno. `R` the sandbox refused, and says why on stderr. `X` the leader
    ended: exit code or minus the signal; whether descendants live on. `D` done, the last one: how many were killed
    besides the leader; whether some would not die."""
    try:
        channel.sendall(WARDEN_REPORT.pack(kind, first, second))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the runtime is gone; the closed channel says so to `_guard` too


# Processes


def _sweep(child_died: int, leader: int = 0, spared: set[int] | None = None) -> tuple[set[int], int, bool]:
    """Kill all descendants until none is left. Who was killed, how the leader ended, whether something still lives.

    Again and again, because what is forked while we look is found in the next round: its parent is then dead and it
    hangs from us. A process that cannot be killed (another user's, or stuck in the kernel) ends the attempt.
    """
    spared = set() if spared is None else spared
    killed: set[int] = set()
    code = -_signal.SIGKILL
    for _ in range(_SWEEP_ROUNDS_MAX):
        _drain(child_died)
        ended, left = _reap(leader)
        code = ended.get(leader, code)
        spared.difference_update(ended)
        found = _signal_all(_signal.SIGKILL, leader, spared)
        killed |= found
        if not found and (spared or not left):
            return killed, code, False
        select.select([child_died], [], [], _ROUND_MS / 1000)
    return killed, code, True


def _signal_all(number: int, leader: int = 0, spared: AnyInts = frozenset()) -> set[int]:
    found = descendants({os.getpid(), leader}, spared)
    for pid in found:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # gone meanwhile; or of another user, and then the report says that something would not die
    return found


def descendants(roots: AnyInts, spared: AnyInts = frozenset()) -> set[int]:
    """Living processes below `roots`, but not the `spared` and what is below them."""
    children: dict[int, list[int]] = {}
    for pid, parent in process_table():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    unseen = [pid for pid in roots if pid]
    while unseen:
        for pid in children.get(unseen.pop(), ()):
            if pid not in spared and pid not in found:
                found.add(pid)
                unseen.append(pid)
    return found


def process_table() -> list[tuple[int, int]]:
    """Pid and parent of every process that is not a zombie."""
    if not os.path.exists("/proc/self/stat"):
        return process_table_by_ps()
    table = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", 0) as file:
                fields = file.read(1024).rpartition(b")")[2].split(None, 2)
        except (FileNotFoundError, ProcessLookupError):
            continue  # gone since we read the folder
        if fields[0] not in (b"Z", b"X"):
            table.append((int(name), int(fields[1])))
    return table


def process_table_by_ps() -> list[tuple[int, int]]:
    """Where there is no /proc. An orphan counts as a child of its process group's leader, though that be dead."""
    output_r, output_w = os.pipe()
    columns = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    pid = os.posix_spawnp("ps", columns, {}, file_actions=[(os.POSIX_SPAWN_DUP2, output_w, 1)])
    os.close(output_w)
    with open(output_r, "rb") as file:
        rows = [line.split() for line in file]
    os.waitpid(pid, 0)
    living = [(int(row[0]), int(row[1]), int(row[2])) for row in rows if not row[3].startswith(b"Z")]
    return [(child, group if parent == 1 else parent) for child, parent, group in living if child != pid]


def _reap(leader: int = 0) -> tuple[dict[int, int], bool]:
    """Children that have ended, with their exit codes (minus the signal where one ended them); whether more live."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, sys.platform != "linux" and bool(descendants({leader}))
        if not pid:
            return ended, True
        ended[pid] = os.waitstatus_to_exitcode(status)


def _take_in_orphans(name: bytes) -> None:
    """Become a subreaper; and get a name under which `pkill python` in a command does not find us."""
    if sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_SUBREAPER, 1, 0, 0, 0)
        prctl(_SET_NAME, name, 0, 0, 0)


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends: like a pidfd, on every platform and for orphans too."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    _signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    return readable


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _receive(channel: _socket.socket, size: int) -> bytes | None:
    pieces = []
    while size > 0:
        piece = channel.recv(size)
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
