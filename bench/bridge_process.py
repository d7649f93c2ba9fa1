# SPDX-License-Identifier: Apache-2.0
"""Runs the bridge in a process of its own, to measure its CPU and memory, with a log of its requests to Slurm.

    python -m bench.bridge_process SETTINGS KUBECONFIG REQUEST_LOG STALLS

It is the bridge that `slinky bridge` runs; only two logs are added: a line for each call with the time of its response
on the machine's monotonic clock, method, path, status and seconds, and a line for each stall of the event loop.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Self

from slinky.bridge import config
from slinky.bridge.app import assemble
from slinky.bridge.credentials import token_source
from slinky.kube import connect
from slinky.kube.lease import connect_election
from slinky.observe import Health, log
from slinky.observe.health import LoopLag
from slinky.observe.process import run_process
from slinky.slurm import RequestRecord, SlurmClient

NAMED = re.compile(r"(?:(?<=^job)|(?<=^node)|(?<=^resources))/(?!submit|allocate).+")
#: Shorter stalls are not logged.
MIN_STALL = 0.005
TICKS = 100  # of /proc's CPU times, per second


class Call(NamedTuple):
    """One call to Slurm."""

    at: float
    method: str
    path: str
    status: str
    seconds: float

    @property
    def kind(self) -> str:
        """Method and path without the names of jobs and hosts."""
        path = re.sub(r"/(slurm|slurmdb)/v[\d.]+/", "", self.path)
        return f"{self.method} {NAMED.sub('/{}', path)}"


class BridgeProcess:
    """A running bridge, its requests, CPU time and memory."""

    def __init__(self, folder: Path, settings: Path, kubeconfig: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._request_log, self._log, self._stall = folder / "requests", folder / "bridge.log", folder / "stall"
        self._argv = [
            sys.executable,
            "-m",
            "bench.bridge_process",
            str(settings),
            str(kubeconfig),
            str(self._request_log),
            str(self._stall),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._request_log.write_text("")
        self.reset_stall()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._argv, stdout=output, stderr=output)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def calls(self, since: float = 0.0) -> list[Call]:
        """Calls to Slurm that were answered since a time."""
        rows = (line.split() for line in self._request_log.read_text().splitlines())
        return [call for row in rows if len(row) == 5 and (call := _read(row)).at >= since]

    def reset_stall(self) -> None:
        """Forget the stalls of the event loop so far."""
        self._stall.write_text("")

    @property
    def stall(self) -> float:
        """The longest stall of the event loop since the last reset, in seconds of work of its thread."""
        return max(map(float, self._stall.read_text().split()), default=0.0)

    @property
    def cpu(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        (line,) = [row for row in Path(f"/proc/{self._pid}/status").read_text().splitlines() if row.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    @property
    def _pid(self) -> int:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the bridge ended:\n{self._log.read_text()[-2000:]}")
        return self._process.pid


def _read(row: list[str]) -> Call:
    return Call(float(row[0]), row[1], row[2], row[3], float(row[4]))


class StallLog(LoopLag):
    """Writes each stall of the event loop to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(interval=0.01)
        self._path = path

    def _observe(self, lag: float, busy: float) -> None:
        super()._observe(lag, busy)
        if min(lag, busy) > MIN_STALL:
            with self._path.open("a") as stalls:
                stalls.write(f"{min(lag, busy):.4f}\n")


async def main(health: Health) -> None:
    """Run a replica of the bridge until a signal."""
    settings, _ = config.load(Path(sys.argv[1]))
    with Path(sys.argv[3]).open("a", buffering=1) as request_log:  # noqa: ASYNC230

        def record(call: RequestRecord) -> None:
            request_log.write(f"{time.monotonic():.6f} {call.method} {call.path} {call.status} {call.seconds:.6f}\n")

        lease = connect_election(
            settings.bridge_name, str(os.getpid()), namespace=settings.lease_namespace, kubeconfig=sys.argv[2]
        )
        async with (
            connect(sys.argv[2], manager="slurm-bridge") as kube,
            lease as election,
            SlurmClient(settings.slurm_rest_api, token_source(settings), observe=record) as slurm,
        ):
            bridge = await assemble(settings, kube, slurm, health=health)
            bridge.runtime.add_service(StallLog(Path(sys.argv[4])).run)
            await bridge.run(election.lead)


if __name__ == "__main__":
    log.setup_logging("human", "WARNING")
    sys.exit(run_process(main, ()))
