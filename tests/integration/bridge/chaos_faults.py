# SPDX-License-Identifier: Apache-2.0
"""Faults of the daemons around the bridge, for the randomized test. A fault begins, lasts for some steps, and ends."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from signal import SIGCONT, SIGKILL, SIGSTOP

from tests.integration.bridge.chaos import NODE_SIZE, InvariantChecker, KubeletSimulation
from tests.integration.bridge.chaos_processes import BridgeReplicas
from tests.support.slurmrestd_proxy import SlurmrestdProxy, slow

from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm

#: Seconds after which a request to a stopped slurmctld is given up, and may be carried out later all the same.
REQUEST_DEADLINE = 15.0


@dataclass(frozen=True)
class Fault:
    """How a fault begins and ends.

    After a fault that `forgets`, Slurm may have jobs that the bridge has ended, or two jobs of a pod; the bridge has
    some time to repair that.
    """

    name: str
    begin: Callable[[], Awaitable[None]]
    end: Callable[[], Awaitable[None]]
    forgets: bool = False


class Faults:
    """The faults of one run."""

    def __init__(
        self,
        checker: InvariantChecker,
        kubelets: KubeletSimulation,
        bridges: BridgeReplicas,
        plane: BarePlane,
        slurm: LabSlurm,
        proxy: SlurmrestdProxy,
        rng: random.Random,
        stopped_seconds: float,
    ) -> None:
        self._stage, self._kubelets, self._bridges = checker.stage, kubelets, bridges
        self._plane, self._slurm, self._proxy, self._random = plane, slurm, proxy, rng
        self._stopped_seconds = stopped_seconds
        self._checker = checker
        self._end: Callable[[], Awaitable[None]] | None = None
        self._resume_at = 0.0
        self._node = ""
        self.history: list[str] = []

    @property
    def all(self) -> list[Fault]:
        """Every fault."""
        late = self._stopped_seconds > REQUEST_DEADLINE
        return [
            Fault("slurmctld killed", self._kill_slurmctld, lambda: self._start("slurmctld"), forgets=True),
            Fault("node not ready", self._lose_node, self._recover_node),
            Fault("slow Slurm", self._slow_down, self._speed_up),
            Fault("slurmctld stopped", self._stop_slurmctld, self._resume_slurmctld, forgets=late),
            Fault("API server restarted", self._restart_apiserver, self._nothing),
            Fault("slurmrestd killed", lambda: self._kill("slurmrestd"), lambda: self._start("slurmrestd")),
            Fault("all replicas killed", self._kill_replicas, self._start_replicas),
        ]

    @property
    def active(self) -> bool:
        """Whether a fault lasts."""
        return self._end is not None

    async def begin(self, fault: Fault) -> None:
        """Begin a fault; the one before has ended."""
        assert self._end is None
        self.history.append(fault.name)
        self._checker.slurm_may_forget = self._checker.slurm_may_forget or fault.forgets
        self._end = fault.end
        await fault.begin()

    async def end(self) -> None:
        """End the fault that lasts, if there is one."""
        if self._end is not None:
            end, self._end = self._end, None
            await end()

    async def _nothing(self) -> None:
        """The fault has ended by itself."""

    # --- Slurm

    async def _kill(self, daemon: str) -> None:
        await asyncio.to_thread(self._slurm.stop, daemon, SIGKILL)

    async def _start(self, daemon: str) -> None:
        await asyncio.to_thread(self._slurm.start, daemon)

    async def _kill_slurmctld(self) -> None:
        await self._kill("slurmctld")

    async def _stop_slurmctld(self) -> None:
        self._slurm.machine.call("signal", name="slurmctld", number=int(SIGSTOP))
        self._resume_at = asyncio.get_running_loop().time() + self._stopped_seconds

    async def _resume_slurmctld(self) -> None:
        await asyncio.sleep(max(0.0, self._resume_at - asyncio.get_running_loop().time()))
        self._slurm.machine.call("signal", name="slurmctld", number=int(SIGCONT))

    async def _slow_down(self) -> None:
        self._proxy.fault = slow(self._random.uniform(0.1, 0.6))

    async def _speed_up(self) -> None:
        self._proxy.fault = None

    # --- Kubernetes

    async def _restart_apiserver(self) -> None:
        await asyncio.to_thread(self._plane.restart_apiserver)

    async def _lose_node(self) -> None:
        self._node = self._random.choice(self._stage.nodes)
        self._kubelets.unreachable.add(self._node)
        await self._stage.report_node(self._node, ready=False, amounts=NODE_SIZE)

    async def _recover_node(self) -> None:
        await self._stage.report_node(self._node, amounts=NODE_SIZE)
        self._kubelets.unreachable.clear()

    # --- the bridge

    async def _kill_replicas(self) -> None:
        self._bridges.kill()

    async def _start_replicas(self) -> None:
        self._bridges.start()
