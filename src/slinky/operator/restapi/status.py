# SPDX-License-Identifier: Apache-2.0
"""How a RestApi does. Pure."""

from slinky.api.restapi import RestApi
from slinky.kube.views import ReplicaStatus
from slinky.operator.health import Fact, Health, of_workload
from slinky.operator.sight import Sight


def health(of: RestApi, workload: ReplicaStatus | None, observed: bool, sight: Sight) -> Health:
    """Conditions of a RestApi."""
    status = workload or ReplicaStatus()
    found = of_workload(of.spec.replicas, status.ready_replicas, status.updated_replicas, observed)
    rolled = observed and status.updated_replicas >= of.spec.replicas
    return found._replace(slurm=sight.fact(), config=Fact(rolled, "Loaded" if rolled else "Rolling"))
