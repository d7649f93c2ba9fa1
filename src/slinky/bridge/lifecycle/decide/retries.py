# SPDX-License-Identifier: Apache-2.0
"""Seconds until a workload is looked at again although nothing changed. Pure.

Most changes cause a reconcile by themselves. These intervals are for states that can change without a notification,
and for actions that are repeated.
"""

from slinky.bridge.status.reasons import Reason

#: The state of a job is not known, and its pods wait for an action.
UNKNOWN = 3.0
#: The state of something is not known, and no pod waits for an action.
IDLE_UNKNOWN = 30.0
#: Slurm has not been searched for jobs of an earlier process.
SEARCH = 1.0
#: No pod has been added to a gang for this long: it is reported as incomplete.
GANG_SETTLE = 2.0
#: Condition writes for bound pods are deferred for at most this long while other pods are being bound.
MAX_DEFERRAL = 10.0
#: An object that a pod needs is missing, by the reason on the pod.
MISSING_OBJECT = {Reason.CLAIM_PENDING.token: 10.0, Reason.VOLUME_MISSING.token: 5.0}
#: The pods of a job have not been observed with its label yet.
UNLABELLED = 2.0
#: Too few nodes for the pods. Changes of nodes are notified, except for changes of size.
TOO_FEW_NODES = 60.0
#: A node is not ready, or cordoned.
NODE_NOT_READY = 1.0
#: Pods of earlier jobs still run on a node.
NODE_CLEARING = 0.5
#: Another claim uses the devices. A claim that is released is notified; this is for claims that are not watched.
DEVICES_HELD = 5.0
#: The replacement of a lost job was rejected.
NOT_REPLACED = 30.0
#: It cannot start now, as in the first seconds of slurmctld; no other job can take its nodes while submissions pause.
NOT_STARTED = 3.0
#: The limit of evictions is reached.
EVICTION_LIMITED = 60.0
