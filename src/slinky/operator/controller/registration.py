# SPDX-License-Identifier: Apache-2.0
"""Asks slurmdbd, through slurmrestd, whether it has registered a cluster."""

import asyncio

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.fields.conditions import READY
from slinky.api.names.child_names import SLURMCTLD
from slinky.kube.conditions import find_condition
from slinky.kube.types import Key
from slinky.kube.views import Pod
from slinky.operator.controller.accounting_switch import Registration, active_seconds
from slinky.operator.framework.context import Context
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import SlurmError

#: Seconds that slurmdbd has to answer.
TIMEOUT = 5.0
#: Seconds after which a slurmctld that runs should be registered.
REGISTRATION_SECONDS = 20.0


class RegistrationReader:
    """Reads the registration of each cluster, and remembers it until slurmctld or slurmdbd is replaced."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self._registered: dict[Key, tuple[str, ...]] = {}

    async def read(self, controller: Controller, accounting: Accounting, *, loaded: bool) -> Registration:
        """Return whether slurmdbd has the cluster; unknown if slurmrestd or slurmdbd does not answer.

        `loaded` tells whether slurmctld runs its current configuration; before that it cannot be registered.
        """
        identity = self._identity(controller, accounting)
        if self._registered.get(controller.key) == identity:
            return Registration.REGISTERED
        client = self.clusters.client(controller.key)
        if client is None:
            return Registration.UNKNOWN
        if not loaded:
            return Registration.STARTING
        try:
            async with asyncio.timeout(TIMEOUT):
                clusters = await client.accounting.clusters()
        except (SlurmError, TimeoutError):
            return Registration.UNKNOWN
        if not any(item.name == controller.cluster_name and item.controller.host for item in clusters):
            pods = self._pods(controller)
            recent = active_seconds(pods, self.context.clock.now()) < REGISTRATION_SECONDS
            return Registration.STARTING if recent else Registration.UNREGISTERED
        self._registered[controller.key] = identity
        return Registration.REGISTERED

    def forget(self, key: Key) -> None:
        """Discard what is remembered of a Controller that no longer exists."""
        self._registered.pop(key, None)

    def _identity(self, controller: Controller, accounting: Accounting) -> tuple[str, ...]:
        ready = find_condition(accounting.status.conditions, READY)
        since = ready.last_transition_time if ready else None
        return (accounting.metadata.uid, since or "", *(pod.metadata.uid for pod in self._pods(controller)))

    def _pods(self, controller: Controller) -> list[Pod]:
        return self.context.daemon_pods(SLURMCTLD, controller.key)
