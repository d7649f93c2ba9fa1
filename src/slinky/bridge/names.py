# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations, taints, finalizers and conditions that the bridge reads or writes.

Existing manifests use these names, so they must not change.
"""

SCHEDULER = "slurm-bridge-scheduler"

# On pods
JOB_LABEL = "scheduler.slinky.slurm.net/slurm-jobid"
NODE_ANNOTATION = "slinky.slurm.net/slurm-node"
SLUID_ANNOTATION = "slinky.slurm.net/slurm-sluid"  # the SLUID of the job, which Slurm never reuses
FINALIZER = "scheduler.slinky.slurm.net/finalizer"
OPTION = "slurmjob.slinky.slurm.net/"  # prefix of the job options, see workload/annotations.py
OLD_OPTION = "slinky.slurm.net/"  # an earlier prefix of the job options, which is still accepted

# On nodes
MANAGED_TAINT = "slinky.slurm.net/managed-node"
HOST_LABEL = "slinky.slurm.net/slurm-nodename"
EXTERNAL_LABEL = "scheduler.slinky.slurm.net/external-node"
PARTITIONS_ANNOTATION = "scheduler.slinky.slurm.net/external-node-partitions"
TOPOLOGY_ANNOTATION = "topology.slinky.slurm.net/spec"

# In Slurm: prefix of the drain reasons that the bridge sets. The bridge does not change drains with other reasons.
DRAIN_PREFIX = "slurm-bridge:"

# Conditions that the bridge writes
SCHEDULED = "SlurmScheduled"
ENDED = "SlurmJobEnded"  # the job ended for good; the controller of the pod should not create another one
HOST_CONDITION = "SlurmAvailable"

# Labels and annotations of other projects that identify the pods of a gang
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_INDEX = "jobset.sigs.k8s.io/job-global-index"
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"

# Device resources of Kubernetes
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
