# SPDX-License-Identifier: Apache-2.0
"""How an Accounting does. Pure."""

import re

from slinky.api.accounting import Accounting
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework.conditions import Fact, ObjectHealth, of_workload
from slinky.operator.framework.crash_message import words

_MYSQL = re.compile(r"mysql_real_connect failed: (\d+) (.+)")
#: Numbers of the database's client library, by what they mean for a person.
REFUSALS = frozenset({"1044", "1045", "1049", "1130", "1698"})

OUTSIDE = ObjectHealth(
    Fact(True, "External", "slurmdbd runs outside of Kubernetes; slurmctld is told where"),
    slurm=Fact(None, "External", "nobody here asks a slurmdbd outside of Kubernetes"),
    config=Fact(True, "External", "a slurmdbd outside of Kubernetes has a configuration of its own"),
)


def health(of: Accounting, workload: ReplicaStatus | None, observed: bool, output: str = "") -> ObjectHealth:
    """Conditions of an Accounting; slurmdbd answers when its pod is ready. `output` is what one that is not says."""
    if of.spec.external:
        return OUTSIDE
    status = workload or ReplicaStatus()
    found = of_workload(1, status.ready_replicas, status.updated_replicas, observed)
    answers = Fact(status.ready_replicas > 0, "Answering" if status.ready_replicas else "NotReady")
    rolled = observed and status.updated_replicas > 0
    found = found._replace(slurm=answers, config=Fact(rolled, "Loaded" if rolled else "Rolling"))
    wrong = None if found.ready.value else complaint(of, output)
    return found._replace(ready=wrong._replace(value=False), degraded=wrong) if wrong else found


def complaint(of: Accounting, output: str) -> Fact | None:
    """What slurmdbd says against its database or its files; None if nothing."""
    storage = of.spec.storage_config
    where = f"{storage.host}:{storage.port}" if storage else "the database"
    if told := _MYSQL.findall(output):
        number, said = told[-1]
        if number not in REFUSALS:
            return Fact(True, "DatabaseUnreachable", f"slurmdbd cannot reach {where}: {said}; it keeps trying")
        secret = storage.password_key_ref.name if storage else ""
        hint = f"check storageConfig.username, storageConfig.database and the password in Secret {secret}"
        return Fact(True, "DatabaseRefuses", f"{where} refuses slurmdbd: {said}; {hint}")
    fatal = words(output) if "fatal: " in output else ""
    return Fact(True, "Failing", f"slurmdbd ends: {fatal}") if fatal else None
