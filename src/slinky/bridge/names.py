# SPDX-License-Identifier: Apache-2.0
"""Every label, annotation, taint and finalizer by which the bridge is known.

These names are a contract with manifests that exist already: none of them may change.
"""

SCHEDULER = "slurm-bridge-scheduler"

# On pods
JOB_LABEL = "scheduler.slinky.slurm.net/slurm-jobid"
NODE_ANNOTATION = "slinky.slurm.net/slurm-node"
SLUID_ANNOTATION = "slinky.slurm.net/slurm-sluid"  # ours: the job's name that is never used again
FINALIZER = "scheduler.slinky.slurm.net/finalizer"
OPTION = "slurmjob.slinky.slurm.net/"  # followed by the name of a job option, see annotations.py

# On nodes
MANAGED_TAINT = "slinky.slurm.net/managed-node"
HOST_LABEL = "slinky.slurm.net/slurm-nodename"
EXTERNAL_LABEL = "scheduler.slinky.slurm.net/external-node"
PARTITIONS_ANNOTATION = "scheduler.slinky.slurm.net/external-node-partitions"
TOPOLOGY_ANNOTATION = "topology.slinky.slurm.net/spec"

# In Slurm: who drained a node. Other people's drains do not start like this, and are never touched.
DRAIN_PREFIX = "slurm-bridge:"

# Conditions of ours
SCHEDULED = "SlurmScheduled"
ENDED = "SlurmJobEnded"  # for good: what made the pod should not try again
HOST_CONDITION = "SlurmAvailable"

# Other projects' names by which pods of one gang are told
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_GROUP_HASH = "leaderworkerset.sigs.k8s.io/group-key"
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
