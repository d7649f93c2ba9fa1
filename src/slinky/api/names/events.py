# SPDX-License-Identifier: Apache-2.0
"""Events that the operator records. Other tools may wait for their reasons, so reasons never change.

When an object becomes degraded, the operator also records an event with the reason and the message of the condition
Degraded.
"""

from typing import NamedTuple


class EventReason(NamedTuple):
    """One row: the reason, the kinds on which it is recorded, and when."""

    reason: str
    on: str
    when: str


_SET = "NodeSet"

EVENTS = (
    EventReason("ScalingUp", _SET, "the operator is about to create workers"),
    EventReason("ScalingDown", _SET, "a worker will be removed because there are more workers than desired"),
    EventReason("AutoscaledUp", _SET, "the autoscaler has raised replicas; the message names the demand"),
    EventReason("AutoscaledDown", _SET, "the autoscaler has lowered replicas because workers were idle"),
    EventReason("GrowthFailed", _SET, "new workers did not register in time; the message has the cause"),
    EventReason("ReplicasChanged", _SET, "another writer has changed replicas of a NodeSet with autoscaling"),
    EventReason("RollingUpdate", _SET, "a worker will be replaced because it has an old revision"),
    EventReason("ScheduledUpdate", _SET, "the reservation of a scheduled update was created or deleted"),
    EventReason("SlurmNodeNotRegistered", _SET, "a worker will be replaced because it is not registered in Slurm"),
    EventReason("Condemned", _SET, "a worker will be removed for another cause, which the message names"),
    EventReason("NodeCordon", _SET, "a Slurm node was drained"),
    EventReason("NodeUncordon", _SET, "a Slurm node was undrained and accepts jobs again"),
    EventReason("DrainTimeout", _SET, "jobs were still running after spec.drain.timeout"),
    EventReason("DefunctSlurmNodePruned", _SET, "a Slurm node was deleted because its Kubernetes node does not exist"),
    EventReason("SuccessfulCreate", _SET, "a worker was created"),
    EventReason("SuccessfulDelete", _SET, "a worker was deleted"),
    EventReason("FailedCreate", _SET, "a worker could not be created"),
    EventReason("FailedUpdate", _SET, "the labels or annotations of a worker could not be updated"),
    EventReason("FailedDelete", _SET, "a worker could not be deleted"),
    EventReason("FailedDaemonPod", _SET, "a worker of DaemonSet mode failed and will be replaced"),
    EventReason("SucceededDaemonPod", _SET, "a worker of DaemonSet mode ended and will be replaced"),
    EventReason("AdoptedPods", _SET, "the NodeSet adopted workers that had no owner"),
    EventReason("Rollback", _SET, "the NodeSet was rolled back to an earlier revision"),
    EventReason("RollbackRevisionNotFound", _SET, "the revision of a requested rollback does not exist"),
    EventReason("ConfigLoaded", "Controller", "slurmctld runs a new generation of its configuration"),
    EventReason("ConfigUntried", "Controller", "a configuration generation is used without a test"),
    EventReason("ConfigRefused", "Controller", "a configuration generation is not used because slurmctld rejects it"),
    EventReason("ConfigRolledBack", "Controller", "a configuration generation was replaced by the last good one"),
    EventReason("Replacing", "Controller", "a slurmctld pod gets a new revision, or registers with slurmdbd"),
    EventReason("KeyRotation", "Controller", "the rotation of the slurm key entered a new stage"),
    EventReason("WeakKey", "Controller", "the JWT key is shorter than its signatures; rotate it"),
    EventReason("DatabaseRefuses", "Accounting", "the database rejects the login of slurmdbd"),
    EventReason("DatabaseUnreachable", "Accounting", "slurmdbd cannot connect to the database"),
    EventReason(
        "InUse", "Controller, RestApi, Accounting", "the deletion waits for the objects that the message names"
    ),
    EventReason("TokenIssued", "Token", "a token was issued or renewed"),
)
