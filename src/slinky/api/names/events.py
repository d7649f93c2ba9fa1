# SPDX-License-Identifier: Apache-2.0
"""Events that people and tools wait for: reasons are a contract as names are.

What blocks an object is an event too, with the reason and the sentence of its condition Degraded.
"""

from typing import NamedTuple


class Event(NamedTuple):
    """One row: the reason, on which kind it is said, and when."""

    reason: str
    on: str
    when: str


_SET = "NodeSet"

EVENTS = (
    Event("ScalingUp", _SET, "workers are to be made"),
    Event("ScalingDown", _SET, "a worker was chosen to go because there are too many"),
    Event("RollingUpdate", _SET, "a worker was chosen to go because it has an old revision"),
    Event("ScheduledUpdate", _SET, "the reservation of a scheduled update was made or removed"),
    Event("SlurmNodeNotRegistered", _SET, "a worker was chosen to go because Slurm does not know it"),
    Event("Condemned", _SET, "a worker was chosen to go for another reason, which the event names"),
    Event("NodeCordon", _SET, "a Slurm node was drained"),
    Event("NodeUncordon", _SET, "a Slurm node takes jobs again"),
    Event("DrainTimeout", _SET, "jobs outstayed spec.drain.timeout"),
    Event("DefunctSlurmNodePruned", _SET, "a Slurm node was removed because its Kubernetes node is gone"),
    Event("SuccessfulCreate", _SET, "a worker was made"),
    Event("SuccessfulDelete", _SET, "a worker was deleted"),
    Event("FailedCreate", _SET, "a worker could not be made"),
    Event("FailedUpdate", _SET, "a worker could not be marked"),
    Event("FailedDelete", _SET, "a worker could not be deleted"),
    Event("FailedDaemonPod", _SET, "a worker of DaemonSet mode failed and is replaced"),
    Event("SucceededDaemonPod", _SET, "a worker of DaemonSet mode ended and is replaced"),
    Event("AdoptedPods", _SET, "workers without a NodeSet were taken over"),
    Event("Rollback", _SET, "it goes back to an earlier revision"),
    Event("RollbackRevisionNotFound", _SET, "there is no such revision to go back to"),
    Event("ConfigLoaded", "Controller", "slurmctld runs a new generation of its configuration"),
    Event("ConfigUntried", "Controller", "a generation is used without a trial"),
    Event("ConfigRefused", "Controller", "a generation is not used, since slurmctld refuses it"),
    Event("ConfigRolledBack", "Controller", "a generation is taken back, since slurmctld fails with it"),
    Event("KeyRotation", "Controller", "a step of the rotation of the slurm key"),
    Event("DatabaseRefuses", "Accounting", "the database lets slurmdbd not in"),
    Event("DatabaseUnreachable", "Accounting", "slurmdbd cannot reach the database"),
    Event("InUse", "Controller, RestApi, Accounting", "its deletion waits for others, which the event names"),
    Event("TokenIssued", "Token", "a token was made or replaced"),
)
