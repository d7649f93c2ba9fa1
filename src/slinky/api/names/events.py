# SPDX-License-Identifier: Apache-2.0
"""Events that people and tools wait for: reasons are a contract as names are.

What blocks an object is an event too, with the reason and the sentence of its condition Degraded.
"""

from typing import NamedTuple


class EventReason(NamedTuple):
    """One row: the reason, on which kind it is said, and when."""

    reason: str
    on: str
    when: str


_SET = "NodeSet"

EVENTS = (
    EventReason("ScalingUp", _SET, "workers are to be made"),
    EventReason("ScalingDown", _SET, "a worker was chosen to go because there are too many"),
    EventReason("RollingUpdate", _SET, "a worker was chosen to go because it has an old revision"),
    EventReason("ScheduledUpdate", _SET, "the reservation of a scheduled update was made or removed"),
    EventReason("SlurmNodeNotRegistered", _SET, "a worker was chosen to go because Slurm does not know it"),
    EventReason("Condemned", _SET, "a worker was chosen to go for another reason, which the event names"),
    EventReason("NodeCordon", _SET, "a Slurm node was drained"),
    EventReason("NodeUncordon", _SET, "a Slurm node takes jobs again"),
    EventReason("DrainTimeout", _SET, "jobs outstayed spec.drain.timeout"),
    EventReason("DefunctSlurmNodePruned", _SET, "a Slurm node was removed because its Kubernetes node is gone"),
    EventReason("SuccessfulCreate", _SET, "a worker was made"),
    EventReason("SuccessfulDelete", _SET, "a worker was deleted"),
    EventReason("FailedCreate", _SET, "a worker could not be made"),
    EventReason("FailedUpdate", _SET, "a worker could not be marked"),
    EventReason("FailedDelete", _SET, "a worker could not be deleted"),
    EventReason("FailedDaemonPod", _SET, "a worker of DaemonSet mode failed and is replaced"),
    EventReason("SucceededDaemonPod", _SET, "a worker of DaemonSet mode ended and is replaced"),
    EventReason("AdoptedPods", _SET, "workers without a NodeSet were taken over"),
    EventReason("Rollback", _SET, "it goes back to an earlier revision"),
    EventReason("RollbackRevisionNotFound", _SET, "there is no such revision to go back to"),
    EventReason("ConfigLoaded", "Controller", "slurmctld runs a new generation of its configuration"),
    EventReason("ConfigUntried", "Controller", "a generation is used without a trial"),
    EventReason("ConfigRefused", "Controller", "a generation is not used, since slurmctld refuses it"),
    EventReason("ConfigRolledBack", "Controller", "a generation is taken back, since slurmctld fails with it"),
    EventReason("KeyRotation", "Controller", "a step of the rotation of the slurm key"),
    EventReason("DatabaseRefuses", "Accounting", "the database lets slurmdbd not in"),
    EventReason("DatabaseUnreachable", "Accounting", "slurmdbd cannot reach the database"),
    EventReason("InUse", "Controller, RestApi, Accounting", "its deletion waits for others, which the event names"),
    EventReason("TokenIssued", "Token", "a token was made or replaced"),
)
