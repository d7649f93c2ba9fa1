# SPDX-License-Identifier: Apache-2.0
"""A real Slurm for these tests.

`SLINKY_TEST_SLURM` names the folder of a running lab (rootfs, `in.sh`, `run/`, `env.sh` with its ports);
without it the tests are skipped. The fixture's surface is that of the shared lab's.
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.slurm.faults import FaultProxy

from slinky.slurm import Client, MintedToken, mint, node_conf

DAEMONS = {
    "slurmctld": ["env", "RUNTIME_DIRECTORY=/run/slurmctld", "slurmctld", "-D", "-i"],
    "slurmdbd": [
        "env",
        "LD_LIBRARY_PATH=/opt/libmariadb-11.8.6",
        "RUNTIME_DIRECTORY=/run/slurmdbd",
        "slurmdbd",
        "-D",
    ],
    "slurmrestd": [
        "setpriv", "--reuid=2010", "--regid=2010", "--clear-groups",
        "env", "SLURMRESTD_JSON=compact", "SLURM_JWT=daemon",
        "slurmrestd", "-a", "rest_auth/jwt", "-t", "4", "127.0.0.1:{RESTPORT}",
    ],
}  # fmt: skip


class Slurm:
    """A Slurm machine that tests may use and break."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        words = (folder / "env.sh").read_text().replace("export", "").split()
        self._env = dict(word.split("=", 1) for word in words)
        self.url = f"http://127.0.0.1:{self._env['RESTPORT']}"
        self.jwt_key = (folder / "rootfs/etc/slurm/jwt_hs256.key").read_bytes()

    def token(self, user: str = "slurm", lifespan: int = 3600) -> str:
        return mint(self.jwt_key, user, lifetime=lifespan)

    def exec(self, *argv: str, user: str | None = None) -> str:
        env = os.environ | ({"AS": user} if user else {})
        run = subprocess.run(
            [str(self._folder / "in.sh"), *argv], env=env, check=True, capture_output=True, text=True
        )
        return run.stdout

    def stop(self, name: str, signal: int = 9) -> None:
        """End a daemon by the process ids that started it, and wait until it is gone."""
        outer = int((self._folder / f"run/{name}.pid").read_text())
        for child in Path(f"/proc/{outer}/task/{outer}/children").read_text().split():
            os.kill(int(child), signal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(outer, signal)
        deadline = time.monotonic() + 30
        while _alive(outer) and time.monotonic() < deadline:
            time.sleep(0.05)

    def start(self, name: str) -> None:
        """Start a daemon and wait until it answers."""
        pause = (self._folder / "run/pause.pid").read_text().strip()
        argv = [word.format(**self._env) for word in DAEMONS[name]]
        enter = ["setsid", "nsenter", "-t", pause, "-m", "-u", "-p", "chroot", str(self._folder / "rootfs")]
        log = (self._folder / f"log/{name}.out").open("ab")
        started = subprocess.Popen([*enter, *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        STARTED.append(started)
        (self._folder / f"run/{name}.pid").write_text(str(started.pid))
        _wait(lambda: self._answers(name))

    def _answers(self, name: str) -> bool:
        if name == "slurmctld":
            return "is UP" in self.exec("scontrol", "ping")
        if name == "slurmdbd":
            return "lab" in self.exec("sacctmgr", "-n", "list", "cluster")
        with socket.create_connection(("127.0.0.1", int(self._env["RESTPORT"])), timeout=5):
            return True

    def add_external_nodes(self, count: int, prefix: str = "k", gpus: int = 0) -> list[str]:
        """Make external nodes `prefix001` and so on, anew."""
        names = [f"{prefix}{index:03d}" for index in range(1, count + 1)]
        hosts = f"{prefix}[001-{count:03d}]"
        with contextlib.suppress(subprocess.CalledProcessError):
            self.exec("scontrol", "delete", f"nodename={hosts}")
        extra: dict[str, str] = {"Gres": f"gpu:h100:{gpus}"} if gpus else {}
        shape = {"Boards": 1, "SocketsPerBoard": 2, "CoresPerSocket": 8, "ThreadsPerCore": 1, "CPUs": 16}
        text = node_conf(
            hosts,
            NodeAddr="127.0.0.1",
            RealMemory=64000,
            State="EXTERNAL",
            Feature="ext",
            Topology="default:leaf2",
            **shape,
            **extra,
        )
        self.exec("scontrol", "create", *text.split())
        return names


STARTED: list[subprocess.Popen[bytes]] = []


def _alive(pid: int) -> bool:
    for process in STARTED:
        process.poll()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"


def _wait(ready: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if ready():
                return
        except (OSError, subprocess.CalledProcessError):
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError("the daemon does not answer")
        time.sleep(0.1)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    folder = os.environ.get("SLINKY_TEST_SLURM")
    if not folder:
        pytest.skip("SLINKY_TEST_SLURM is not set")
    machine = Slurm(Path(folder))
    machine.add_external_nodes(4, gpus=8)
    yield machine
    machine.exec("scancel", "--user=slurm")
    for process in STARTED:  # they outlive the tests, as part of the lab that was there before
        process.returncode = process.poll() or 0


@pytest.fixture
async def client(slurm: Slurm) -> AsyncIterator[Client]:
    async with Client(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as made:
        yield made


@pytest.fixture
async def proxy(slurm: Slurm) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(slurm.url) as made:
        yield made
