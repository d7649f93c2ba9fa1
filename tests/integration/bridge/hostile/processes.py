# SPDX-License-Identifier: Apache-2.0
"""Commands of slinky as processes, and what they report about themselves."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from slinky.lab.kubernetes.bare_plane import WITH_US, free_port

#: Results of reconciles and admission reviews that no input may cause, and the counter of listeners that failed.
BUG = "bug"
LISTENER_ERRORS = "slinky_listener_errors_total"


class Observation(NamedTuple):
    """What is known of a process: its longest stalls, its largest memory, and errors that are bugs.

    `busy_seconds` is the part of a stall in which the process itself used the CPU, `lag_seconds` is all of it.
    """

    busy_seconds: float
    lag_seconds: float
    peak_bytes: int
    bugs: float


class ObservedProcess:
    """One process and its metrics."""

    def __init__(self, command: str, *arguments: str, kubeconfig: Path, log: Path) -> None:
        self.command, self._log, port = command, log, free_port()
        self._url = f"http://127.0.0.1:{port}"
        argv = [sys.executable, "-m", "slinky.cli", command, *arguments]
        argv += ["--health-addr", f"127.0.0.1:{port}", "--metrics-addr", "0"]
        with log.open("ab") as out:
            env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            self._child = subprocess.Popen([*WITH_US, *argv], env=env, stdout=out, stderr=out)

    async def is_ready(self) -> bool:
        """Whether the process reports that it is ready."""
        self.assert_alive()
        try:
            async with aiohttp.ClientSession(self._url) as session, session.get("/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def observe(self) -> Observation:
        """Read the metrics of the process."""
        async with aiohttp.ClientSession(self._url) as session, session.get("/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        samples = [sample for family in families for sample in family.samples]
        values = {sample.name: sample.value for sample in samples}
        bugs = [s.value for s in samples if s.labels.get("result") == BUG or s.name == LISTENER_ERRORS]
        busy, lag = values["slinky_event_loop_busy_max_seconds"], values["slinky_event_loop_lag_max_seconds"]
        return Observation(busy, lag, self._peak_bytes(), sum(bugs))

    def _peak_bytes(self) -> int:
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        (kibibytes,) = re.findall(r"(?m)^VmHWM:\s+(\d+) kB$", status)
        return int(kibibytes) * 1024

    def assert_alive(self) -> None:
        """Fail if the process has ended."""
        assert self._child.poll() is None, f"{self.command} ended: {self.tail()}"

    def tail(self, size: int = 4000) -> str:
        """Read the end of its log; the first error of an unexpected kind comes first."""
        text = self._log.read_text(errors="replace")
        error = next((line for line in text.splitlines() if "unexpected error" in line), "")
        return error[:size] + "\n" + text[-size:]

    def stop(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()
