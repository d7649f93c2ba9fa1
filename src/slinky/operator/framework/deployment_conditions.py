# SPDX-License-Identifier: Apache-2.0
"""How a kind does that is a Deployment and a Slurm behind it. Pure."""

from slinky.kube.views import ReplicaStatus
from slinky.operator.framework.conditions import GOOD, Fact, ObjectHealth, of_workload
from slinky.operator.slurm.snapshot import SlurmSnapshot

#: Conditions by which a Deployment says that it gets no further: a quota, an image that is not there, a crash.
STUCK = (("ReplicaFailure", "True"), ("Progressing", "False"))


def health(wanted: int, workload: ReplicaStatus | None, observed: bool, sight: SlurmSnapshot) -> ObjectHealth:
    """Conditions of a LoginSet or a RestApi."""
    status = workload or ReplicaStatus()
    found = of_workload(wanted, status.ready_replicas, status.updated_replicas, observed)
    rolled = observed and status.updated_replicas >= wanted
    loaded = Fact(rolled, "Loaded" if rolled else "Rolling")
    return found._replace(degraded=_stuck(status), slurm=sight.fact(), config=loaded)


def _stuck(status: ReplicaStatus) -> Fact:
    said = next((one for one in status.conditions if (one.type, one.status) in STUCK), None)
    return Fact(True, said.reason or said.type, said.message) if said else GOOD
