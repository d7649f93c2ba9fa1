# SPDX-License-Identifier: Apache-2.0
"""Carries out the outage of a cluster: observes it, advances its phase, writes the reservation."""

import asyncio
from collections.abc import Callable

import msgspec

from slinky.api.controller import Controller
from slinky.api.fields.conditions import READY
from slinky.api.fields.outage import OutageStatus
from slinky.api.names.child_names import LOGIN, SLURMCTLD, SLURMDBD
from slinky.kube.conditions import is_condition_true
from slinky.observe import Log
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.outages.decision import OutageDecision, OutageObservation, advance, stops_accounting
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm.errors import SlurmError

log = Log("slinky.operator.outages.runner")

#: Seconds that slurmctld may take for a write.
WRITE_TIMEOUT = 30.0

RecordEvent = Callable[[str, str], None]


class OutageRunner:
    """Runs planned outages."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters

    async def advance(self, controller: Controller, record_event: RecordEvent) -> tuple[Controller, float | None]:
        """Return the Controller with the phase that it is in now, and when to look again."""
        if controller.spec.outage is None and not controller.status.outage.phase:
            return controller, None
        decision = advance(controller, self._observe(controller), self.context.clock.now())
        status = await self._write(controller, decision)
        if decision.phase is not controller.outage_phase:
            record_event(f"Outage{decision.phase}", f"Outage of {decision.status.start_time}: {status.message}")
        changed = msgspec.structs.replace(controller.status, outage=status)
        return msgspec.structs.replace(controller, status=changed), decision.recheck_seconds

    def _observe(self, controller: Controller) -> OutageObservation:
        context = self.context
        login_sets = context.login_sets.by(references.CONTROLLER, str(controller.key))
        pods = context.daemon_pods(SLURMCTLD, controller.key)
        observation = OutageObservation(
            slurm=self.clusters.snapshot(controller.key),
            login_pods=sum(len(context.daemon_pods(LOGIN, login_set.key)) for login_set in login_sets),
            controller_pods=len(pods),
            controller_ready=any(pod.ready and not pod.metadata.deleting for pod in pods),
        )
        accounting = context.accountings.get(controller.accounting_key) if controller.accounting_key else None
        if accounting is None or accounting.spec.external:
            return observation
        users = context.controllers.by(references.ACCOUNTING, str(accounting.key))
        others = [user for user in users if user.key != controller.key]
        is_stopped = not others or stops_accounting(others)
        return observation._replace(
            accounting_pods=len(context.daemon_pods(SLURMDBD, accounting.key)) if is_stopped else 0,
            accounting_ready=is_condition_true(accounting.status.conditions, READY),
        )

    async def _write(self, controller: Controller, decision: OutageDecision) -> OutageStatus:
        """Write or delete the reservation; an outage does not depend on it, so that an error is only reported."""
        client, status = self.clusters.client(controller.key), decision.status
        if client is None or not (decision.reserve or decision.release):
            return status
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                if decision.reserve:
                    await client.write_reservation(decision.reserve)
                if decision.release:
                    await client.delete_reservation(decision.release)
        except (SlurmError, TimeoutError) as error:
            log.info("the reservation of an outage was not written", cluster=str(controller.key), error=error)
            text = f"{status.message}; the reservation was not written: {str(error) or 'no answer'}"
            return msgspec.structs.replace(status, message=text[:1024])
        return status
