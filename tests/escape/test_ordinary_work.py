"""The other side of the walls: what a developer's commands do all day goes on behind each of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tool_attacks import Tier, Unavailable, confined

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Command, run

WORK = {
    "write": "echo agreed > AGENTS.md && mkdir -p a/b && mv a c && rm -r c && test -f AGENTS.md",
    "git": "git add -A && git -c user.name=a -c user.email=a@b commit -qm work && git switch -qc other && git log -1",
    "archive": "mkdir t && echo x > t/x && chmod 755 t/x && tar cf t.tar t && rm -r t && tar xpf t.tar && cp -a t u",
    "temporary": "f=$(mktemp) && echo x > $f && mkdir $TMPDIR/mine && rm -r $f $TMPDIR/mine",
    "python": "python3 -I -c 'import subprocess, socket, multiprocessing; subprocess.run([\"true\"], check=True)'",
    "pipes": "seq 1000 | sort -n | tail -1 | grep -q 1000 && (sleep 0.01 & wait) && kill -0 $$",
    "processes": "ps -p $$ >/dev/null && nice -n 1 true && timeout 5 true && ulimit -n 64",
    "system": "ls /usr/bin >/dev/null && id >/dev/null && uname -a >/dev/null && cat /proc/self/status >/dev/null",
    "compiler": "command -v gcc >/dev/null || exit 0; echo 'int main(){return 0;}' > m.c && gcc m.c -o m && ./m",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("tier", ["namespaces", "kernel-lite"])
async def test_ordinary_work_goes_on(tmp_path: Path, tier: Tier) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=workspace, check=True)
    keeper = Keeper()
    try:
        sandbox = await confined(tmp_path, tier, keeper)
    except Unavailable as lacking:
        await keeper.close()
        pytest.skip(str(lacking))
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    machine = open_local(workspace, keeper=keeper, env=env, spool=tmp_path / "spool", sandbox=sandbox)
    try:
        failed = {}
        for name, line in WORK.items():
            done = await run(machine, Command(argv=("bash", "-ec", line)))
            if done.exit_code:
                failed[name] = (done.exit_code, done.stdout.head.decode(errors="replace"))
        assert failed == {}
    finally:
        await machine.close()
        await keeper.close()
