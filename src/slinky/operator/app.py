# SPDX-License-Identifier: Apache-2.0
"""Wires the operator together; nothing is decided here.

await main(Settings(), Health())
"""

import os
import socket
import uuid

from slinky.kube import Election, EventRecorder, Key, Runtime, connect
from slinky.kube.discovery import Discovery, discover, restart_on_new_kinds
from slinky.observe import Health
from slinky.operator.accounting.controller import AccountingReconciler
from slinky.operator.build.monitors import SERVICE_MONITORS
from slinky.operator.controller.controller import ControllerReconciler
from slinky.operator.framework.context import Context
from slinky.operator.keys.generation import KeyMaker
from slinky.operator.keys.jwt_rotation import JwtRotation
from slinky.operator.keys.slurm_rotation import SlurmKeyRotation
from slinky.operator.loginset.controller import LoginSetReconciler
from slinky.operator.nodeset.controller import NodeSetReconciler
from slinky.operator.restapi.controller import RestApiReconciler
from slinky.operator.settings import OperatorSettings
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.slurm.connections import Connections
from slinky.operator.token.controller import TokenReconciler

LEASE = "slurm-operator"
KEEPERS = (ControllerReconciler, AccountingReconciler, RestApiReconciler, NodeSetReconciler, LoginSetReconciler)


async def main(settings: OperatorSettings, health: Health | None = None) -> None:
    """Run the operator until cancelled."""
    health = health or Health()
    async with connect(settings.kubeconfig or None, manager=settings.manager) as client:
        runtime = Runtime(client, health=health)
        recorder = EventRecorder(client, "slurm-operator")
        runtime.add_service(recorder.run)
        monitors = _monitors(await discover(client))
        if not monitors:
            runtime.add_service(lambda: restart_on_new_kinds(client, _monitors))
        for namespace in settings.namespaces or ("",):
            world = Context(runtime, settings, recorder, namespace=namespace, monitors=bool(monitors))
            wire(world)
        if not settings.leader_elect:
            await runtime.run()
            return
        lease = Key(settings.leader_elect_namespace or client.namespace, LEASE)
        await runtime.run(lead=Election(client, lease, identity=identity(settings), health=health).lead)


def _monitors(served: Discovery) -> str:
    """ServiceMonitors, if the server has them."""
    return SERVICE_MONITORS.kind if served.find(SERVICE_MONITORS.group, SERVICE_MONITORS.kind) else ""


def wire(world: Context) -> Clusters:
    """Every controller of one world."""
    clusters = Clusters()
    world.runtime.add_service(clusters.run)
    for keeper in KEEPERS:
        keeper(world, clusters)
    TokenReconciler(world)
    KeyMaker(world)
    SlurmKeyRotation(world, clusters)
    JwtRotation(world)
    Connections(world, clusters)
    return clusters


def identity(settings: OperatorSettings) -> str:
    """Who we are among several replicas."""
    return settings.identity or f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4()}"
