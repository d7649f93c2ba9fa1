# SPDX-License-Identifier: Apache-2.0
"""Creates the operator's controllers and runs them.

await main(OperatorSettings(), Health())
"""

import os
import socket
import uuid

from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.kube import EventRecorder, Runtime, connect
from slinky.kube.discovery import Discovery, discover, restart_on_new_kinds
from slinky.kube.lease import connect_election
from slinky.observe import Health
from slinky.operator.accounting.controller import AccountingReconciler
from slinky.operator.controller.controller import ControllerReconciler
from slinky.operator.framework.children import SERVICE_MONITORS
from slinky.operator.framework.context import Context
from slinky.operator.framework.definition_skew import report_definition_skew
from slinky.operator.keys.generation import KeyGenerator
from slinky.operator.keys.jwt_rotation import JwtKeyRotation
from slinky.operator.keys.slurm_rotation import SlurmKeyRotation
from slinky.operator.loginset.controller import LoginSetReconciler
from slinky.operator.nodeset.controller import NodeSetReconciler
from slinky.operator.restapi.controller import RestApiReconciler
from slinky.operator.settings import OperatorSettings
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.slurm.connections import Connections
from slinky.operator.token.controller import TokenReconciler

LEASE = "slurm-operator"
RECONCILERS = (ControllerReconciler, AccountingReconciler, RestApiReconciler, NodeSetReconciler, LoginSetReconciler)


async def main(settings: OperatorSettings, health: Health | None = None) -> None:
    """Run the operator until it is cancelled."""
    health = health or Health()
    async with connect(settings.kubeconfig or None, manager=FIELD_MANAGER) as client:
        runtime = Runtime(client, health=health)
        recorder = EventRecorder(client, "slurm-operator")
        runtime.add_service(recorder.run)
        runtime.add_service(lambda: report_definition_skew(client))
        monitors = _service_monitor_kind(await discover(client))
        if not monitors:
            runtime.add_service(lambda: restart_on_new_kinds(client, _service_monitor_kind))
        for namespace in settings.namespaces or ("",):
            create_controllers(
                Context(runtime, settings, recorder, namespace=namespace, service_monitors=bool(monitors))
            )
        if not settings.leader_elect:
            await runtime.run()
            return
        async with connect_election(
            LEASE,
            leader_identity(),
            namespace=settings.leader_elect_namespace,
            kubeconfig=settings.kubeconfig or None,
            health=health,
        ) as election:
            await runtime.run(lead=election.lead)


def _service_monitor_kind(discovery: Discovery) -> str:
    """Return the kind ServiceMonitor if the API server serves it, otherwise an empty string."""
    return SERVICE_MONITORS.kind if discovery.find(SERVICE_MONITORS.group, SERVICE_MONITORS.kind) else ""


def create_controllers(context: Context) -> Clusters:
    """Create every controller of one namespace, or of all namespaces."""
    clusters = Clusters(context.clock, user=context.settings.slurm_user)
    context.runtime.add_service(clusters.run)
    for reconciler in RECONCILERS:
        reconciler(context, clusters)
    TokenReconciler(context)
    KeyGenerator(context)
    SlurmKeyRotation(context, clusters)
    JwtKeyRotation(context)
    Connections(context, clusters)
    return clusters


def leader_identity() -> str:
    """Return the name of this replica in the leader Lease, unique for each start."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4()}"
