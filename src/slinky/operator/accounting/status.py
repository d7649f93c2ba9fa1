# SPDX-License-Identifier: Apache-2.0
"""Status conditions of an Accounting. Pure."""

import re

from slinky.api.accounting import Accounting
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework.conditions import ConditionState, ObjectHealth, workload_health
from slinky.operator.framework.failure_causes import Failure, with_failure

_MYSQL_ERROR = re.compile(r"mysql_real_connect failed: (\d+) (.+)")
#: Error codes with which a database rejects the user, the password or the name of the database.
REJECTIONS = frozenset({"1044", "1045", "1049", "1130", "1698"})

EXTERNAL = ObjectHealth(
    ConditionState(True, "External", "slurmdbd runs outside Kubernetes; its address is written for slurmctld"),
    slurm=ConditionState(None, "External", "the operator does not connect to a slurmdbd outside Kubernetes"),
    config=ConditionState(True, "External", "a slurmdbd outside Kubernetes has its own configuration"),
)


def health(
    accounting: Accounting,
    workload: ReplicaStatus | None,
    observed: bool,
    output: str = "",
    failure: Failure | None = None,
    wait: str = "",
) -> ObjectHealth:
    """Return the health of an Accounting; `output` is the output of a slurmdbd that is not ready."""
    if accounting.spec.external:
        return EXTERNAL
    status = workload or ReplicaStatus()
    result = workload_health(1, status.ready_replicas, status.updated_replicas, observed, wait)
    slurm = ConditionState(status.ready_replicas > 0, "Answering" if status.ready_replicas else "NotReady")
    rolled_out = observed and status.updated_replicas > 0
    config = ConditionState(rolled_out, "Loaded" if rolled_out else "Rolling")
    result = with_failure(result._replace(slurm=slurm, config=config), failure)
    problem = None if result.ready.value else database_problem(accounting, output)
    return result._replace(ready=problem._replace(value=False), degraded=problem) if problem else result


def database_problem(accounting: Accounting, output: str) -> ConditionState | None:
    """Return the error of the database in the output of slurmdbd, with the next step."""
    storage = accounting.spec.storage_config
    errors = _MYSQL_ERROR.findall(output)
    if storage is None or not errors:
        return None
    code, message = errors[-1]
    database = f"{storage.host}:{storage.port}"
    if code not in REJECTIONS:
        text = f"slurmdbd cannot reach {database}: {message}; it keeps trying"
        return ConditionState(True, "DatabaseUnreachable", text)
    secret = storage.password_key_ref.name
    hint = f"check storageConfig.username, storageConfig.database and the password in Secret {secret}"
    return ConditionState(True, "DatabaseRefuses", f"{database} rejects slurmdbd: {message}; {hint}")
