# SPDX-License-Identifier: Apache-2.0
"""The bridge as the command starts it: one process, or two replicas of which one leads."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import msgspec
from tests.integration.bridge.device_stage import DeviceStage
from tests.support.waiting import eventually

from slinky.bridge.config import BridgeSettings
from slinky.lab.kubernetes.bare_plane import WITH_US, BarePlane, free_port
from slinky.lab.slurm.cluster import LabSlurm

#: The end of a log that a failed run shows.
TAIL = 4000


class BridgeProcess:
    """One process of the bridge."""

    def __init__(self, config: Path, kubeconfig: Path, log: Path) -> None:
        self._config, self._log = config, log
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._child: subprocess.Popen[bytes] | None = None
        self._health = f"127.0.0.1:{free_port()}"
        self.kills = 0

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._child is None:
            addresses = ["--health-addr", self._health, "--metrics-addr", "0"]
            argv = [sys.executable, "-m", "slinky.cli", "bridge", "--config", str(self._config), *addresses]
            with self._log.open("ab") as out:
                self._child = subprocess.Popen([*WITH_US, *argv], env=self._env, stdout=out, stderr=out)

    def kill(self) -> None:
        """Kill the process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self.kills += 1
            self._child = None

    async def is_ready(self, session: aiohttp.ClientSession) -> bool:
        """Whether the process reports that it is ready."""
        self.assert_alive()
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(f"http://{self._health}/readyz") as response:
                return response.status == 200
        return False

    def assert_alive(self) -> None:
        """Fail if the process has ended by itself."""
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"the bridge ended by itself: {self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-TAIL:] if self._log.exists() else ""


class BridgeReplicas:
    """All processes of a bridge."""

    def __init__(self, processes: list[BridgeProcess]) -> None:
        self.processes = processes

    @classmethod
    def of(
        cls, stage: DeviceStage, plane: BarePlane, slurm: LabSlurm, url: str, folder: Path, count: int
    ) -> "BridgeReplicas":
        """Replicas that reach Slurm at `url`; several elect a leader."""
        key, config = folder / "jwt", folder / "config.yaml"
        key.write_bytes(slurm.jwt_key)
        lease = {"leader_elect": count > 1, "lease_namespace": stage.namespace}
        settings: BridgeSettings = msgspec.structs.replace(
            stage.settings, slurm_rest_api=url, jwt_key_file=str(key), **lease
        )
        config.write_text(json.dumps(msgspec.to_builtins(settings)))
        return cls([BridgeProcess(config, plane.kubeconfig, folder / f"bridge{number}.log") for number in range(count)])

    @property
    def kills(self) -> int:
        """How often a process was killed."""
        return sum(process.kills for process in self.processes)

    def start(self) -> None:
        """Start every process that does not run."""
        for process in self.processes:
            process.start()

    def kill(self) -> None:
        """Kill every process."""
        for process in self.processes:
            process.kill()

    async def wait_ready(self) -> None:
        """Wait until every process reports that it is ready."""
        async with aiohttp.ClientSession() as session:

            async def ready() -> bool:
                return all([await process.is_ready(session) for process in self.processes])

            await eventually(ready, "the readiness of the bridge")

    def assert_alive(self) -> None:
        """Fail if a process has ended by itself."""
        for process in self.processes:
            process.assert_alive()

    def tails(self) -> str:
        """The ends of the logs."""
        return "\n\n".join(process.tail() for process in self.processes)
