# SPDX-License-Identifier: Apache-2.0
"""How an Accounting does. Pure."""

from slinky.api.accounting import Accounting
from slinky.kube.views import ReplicaStatus
from slinky.operator.health import Fact, Health, of_workload


def health(of: Accounting, workload: ReplicaStatus | None, observed: bool) -> Health:
    """Conditions of an Accounting; slurmdbd answers when its pod is ready."""
    if of.spec.external:
        return Health(Fact(True, "External"), slurm=Fact(None, "External"), config=Fact(True, "External"))
    status = workload or ReplicaStatus()
    found = of_workload(1, status.ready_replicas, status.updated_replicas, observed)
    answers = Fact(status.ready_replicas > 0, "Answering" if status.ready_replicas else "NotReady")
    rolled = observed and status.updated_replicas > 0
    return found._replace(slurm=answers, config=Fact(rolled, "Loaded" if rolled else "Rolling"))
