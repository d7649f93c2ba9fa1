# SPDX-License-Identifier: Apache-2.0
"""How a Controller does. Pure."""

from slinky.api.controller import Controller
from slinky.kube.views import ReplicaStatus
from slinky.operator.health import Fact, Health, of_workload
from slinky.operator.sight import Sight


def health(of: Controller, workload: ReplicaStatus | None, observed: bool, sight: Sight) -> Health:
    """Conditions of a Controller: one ready slurmctld is enough, standby ones never are."""
    reachable = sight.fact()
    if of.spec.external:
        value = True if reachable.value is None else reachable.value
        return Health(Fact(value, "External"), slurm=reachable, config=Fact(True, "Written"))
    status = workload or ReplicaStatus()
    found = of_workload(1, status.ready_replicas, min(1, status.updated_replicas), observed)
    rolled = observed and status.updated_replicas >= of.replicas
    config = Fact(rolled, "Loaded" if rolled else "Rolling")
    if of.spec.inplace_reconfigure:
        config = Fact(True, "Written", "the running slurmctld reads it again within two minutes")
    return found._replace(slurm=reachable, config=config)
