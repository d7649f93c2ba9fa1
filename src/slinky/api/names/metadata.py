# SPDX-License-Identifier: Apache-2.0
"""Every annotation, label, finalizer and taint, and who writes it.

Other tools (topology writers, drainers, autoscalers) rely on them, so their meaning never changes. The reference
documentation is rendered from these tables.
"""

from typing import NamedTuple


class MetadataName(NamedTuple):
    """One row: the key, the objects that have it, who writes it, what it means."""

    key: str
    on: str
    by: str
    meaning: str


# --- annotations

POD_CORDON = "nodeset.slinky.slurm.net/pod-cordon"
POD_CORDON_OWNER = "nodeset.slinky.slurm.net/pod-cordon-owner"
POD_CONDEMNED = "nodeset.slinky.slurm.net/pod-condemned"
POD_DELETION_COST = "nodeset.slinky.slurm.net/pod-deletion-cost"
POD_KEPT_DRAIN = "nodeset.slinky.slurm.net/kept-drain"
POD_DEADLINE = "nodeset.slinky.slurm.net/pod-deadline"
POD_NODE = "nodeset.slinky.slurm.net/node"
FORCE_DELETE = "nodeset.slinky.slurm.net/force-delete"
ROLLBACK_TO = "nodeset.slinky.slurm.net/rollback-to"
RETRY_GROWTH = "nodeset.slinky.slurm.net/retry-growth"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
REVISION_CONTENTS = "nodeset.slinky.slurm.net/revision-contents"
NODE_CORDON_REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
HOSTNAME_OVERRIDE = "nodeset.slinky.slurm.net/hostname-override"
TOPOLOGY = "topology.slinky.slurm.net/spec"
FEATURES = "features.slinky.slurm.net/spec"
SLURM_KEY_HASH = "slinky.slurm.net/slurm-key-hash"
JWT_KEY_HASH = "slinky.slurm.net/jwt-key-hash"
SLURM_CONFIG_HASH = "slinky.slurm.net/slurm-config-hash"
SLURMDBD_CONF_HASH = "slinky.slurm.net/slurmdbd-conf-hash"
SSHD_CONF_HASH = "slinky.slurm.net/sshd-conf-hash"
SSSD_CONF_HASH = "slinky.slurm.net/sssd-conf-hash"
SSH_HOST_KEYS_HASH = "slinky.slurm.net/ssh-host-keys-hash"
CONFIG_GENERATION = "slinky.slurm.net/config-generation"
CONFIG_VERDICT = "slinky.slurm.net/config-verdict"
CONFIG_ERROR = "slinky.slurm.net/config-words"
CONFIG_IMAGE = "slinky.slurm.net/config-image"
SLURM_VERSION = "slinky.slurm.net/slurm-version"
CONFIG_VERSION = "slinky.slurm.net/config-slurm-version"
CONFIG_LAST_GOOD = "slinky.slurm.net/config-last-good"
CONFIG_SINCE = "slinky.slurm.net/config-since"
CONFIG_STARTED = "slinky.slurm.net/config-started"
CONFIG_RELOADED = "slinky.slurm.net/config-reloaded"
CONFIG_RESTART_KEYS = "slinky.slurm.net/config-restart-keys"
CONFIG_TRIAL = "slinky.slurm.net/config-trial"
KEY_STAGE = "slinky.slurm.net/key-stage"
KEY_STAGE_SINCE = "slinky.slurm.net/key-stage-since"
KEY_WORKERS_TOLD = "slinky.slurm.net/key-workers-told"
KEY_MOUNTED = "slinky.slurm.net/slurm-key-mounted"
KEY_ORIGIN = "slinky.slurm.net/key-origin"
KEY_ROTATION = "slinky.slurm.net/key-rotation"
GENERATE_KEYS = "slinky.slurm.net/generate-keys"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
MINIMUM_SLURM_VERSION = "slinky.slurm.net/minimum-slurm-version"

_HASH = "hash of the content; a change replaces the pods"

ANNOTATIONS = (
    MetadataName(POD_CORDON, "pod", "user or tool", '"true" drains the Slurm node of this worker'),
    MetadataName(
        POD_CORDON_OWNER,
        "pod",
        "operator",
        "cause of the removal: scale-in, update, deletion, scaling-mode, node or unregistered",
    ),
    MetadataName(
        POD_CONDEMNED,
        "pod",
        "operator",
        "why and since when the operator removes this worker; the choice is final",
    ),
    MetadataName(POD_DELETION_COST, "pod", "user", "an integer; workers with a lower cost are removed first"),
    MetadataName(
        POD_KEPT_DRAIN, "pod", "operator", "drain (reason and user) that the host had before and gets again, as JSON"
    ),
    MetadataName(POD_DEADLINE, "pod", "operator", "RFC 3339 time by which the last job on the worker has to end"),
    MetadataName(
        POD_NODE, "pod", "operator", "Kubernetes node for which a worker of DaemonSet mode or a pinned worker is meant"
    ),
    MetadataName(
        FORCE_DELETE,
        "pod, NodeSet",
        "user",
        '"true" deletes a worker that is being removed without waiting for the confirmation of Slurm',
    ),
    MetadataName(
        RETRY_GROWTH,
        "NodeSet",
        "user",
        "any new value lets a NodeSet grow again at once, although earlier workers did not register in time",
    ),
    MetadataName(
        DO_NOT_DISRUPT,
        "worker pod",
        "operator",
        '"true" while the worker runs jobs, unless the template sets it: Karpenter does not remove its node',
    ),
    MetadataName(
        SAFE_TO_EVICT,
        "worker pod",
        "operator",
        '"false" while the worker runs jobs, unless the template sets it: Cluster Autoscaler does not remove its node',
    ),
    MetadataName(ROLLBACK_TO, "NodeSet", "user", 'roll back to a kept revision: its number, its name, or "previous"'),
    MetadataName(
        REVISION_CONTENTS, "revision", "operator", "digest of the keys and files that workers of this revision use"
    ),
    MetadataName(NODE_CORDON_REASON, "node", "user", "reason that Slurm shows while the node is cordoned"),
    MetadataName(HOSTNAME_OVERRIDE, "node", "user", "host name of the worker on this node, in DaemonSet mode"),
    MetadataName(TOPOLOGY, "node, copied to pod", "user or tool", "position of the node in Slurm's dynamic topology"),
    MetadataName(
        FEATURES, "node", "user or tool", "comma-separated list; each item becomes the Slurm feature k8s/<item>"
    ),
    *(
        MetadataName(key, "pod template", "operator", _HASH)
        for key in (
            SLURM_KEY_HASH,
            JWT_KEY_HASH,
            SLURM_CONFIG_HASH,
            SLURMDBD_CONF_HASH,
            SSHD_CONF_HASH,
            SSSD_CONF_HASH,
            SSH_HOST_KEYS_HASH,
        )
    ),
    MetadataName(CONFIG_GENERATION, "ConfigMap", "operator", "number and digest of the configuration in the ConfigMap"),
    MetadataName(
        CONFIG_VERDICT,
        "ConfigMap",
        "operator",
        "result of a configuration generation: untried, good, unknown, bad, loaded or failed",
    ),
    MetadataName(CONFIG_ERROR, "ConfigMap", "operator", "error that slurmctld reported for the generation"),
    MetadataName(CONFIG_IMAGE, "ConfigMap", "operator", "image of slurmctld that belongs to the generation"),
    MetadataName(SLURM_VERSION, "StatefulSet", "operator", "version of Slurm that the image of slurmdbd answered"),
    MetadataName(CONFIG_VERSION, "ConfigMap", "operator", "version of Slurm that the image of the generation answered"),
    MetadataName(
        CONFIG_LAST_GOOD, "ConfigMap", "operator", "last generation that slurmctld ran, the target of a rollback"
    ),
    MetadataName(
        CONFIG_SINCE, "ConfigMap", "operator", "RFC 3339 time at which the generation in the ConfigMap was first used"
    ),
    MetadataName(
        CONFIG_STARTED, "ConfigMap", "operator", "digest of the generation that slurmctld pods have to be started with"
    ),
    MetadataName(CONFIG_RELOADED, "ConfigMap", "operator", '"true" if slurmctld loads the generation while it runs'),
    MetadataName(
        CONFIG_RESTART_KEYS, "ConfigMap", "operator", "settings for which slurmctld was restarted with the generation"
    ),
    MetadataName(CONFIG_TRIAL, "Controller", "user", '"off" uses configurations without testing them first'),
    MetadataName(KEY_STAGE, "keyring", "operator", "stage of the rotation of a key; Settled if there is no rotation"),
    MetadataName(KEY_STAGE_SINCE, "keyring", "operator", "RFC 3339 time at which that stage began"),
    MetadataName(
        KEY_WORKERS_TOLD, "keyring", "operator", "RFC 3339 time at which workers were asked to reload their keys"
    ),
    MetadataName(KEY_MOUNTED, "worker pod", "operator", "digest of the slurm keys that the pod should have mounted"),
    MetadataName(
        KEY_ORIGIN,
        "keyring",
        "operator",
        "digest of the first key, which stays the key hash of workers during rotations",
    ),
    MetadataName(KEY_ROTATION, "keyring", "operator", "what the rotation does and waits for, as a sentence"),
    MetadataName(
        GENERATE_KEYS,
        "Secret",
        "chart or user",
        "comma-separated list of up to 16 names; the operator generates each missing key at random, once",
    ),
    MetadataName(DEFAULT_CONTAINER, "pod", "operator", "container that kubectl logs and kubectl exec use by default"),
    MetadataName(MINIMUM_SLURM_VERSION, "chart", "chart", "oldest Slurm version that the chart supports"),
)

# --- labels

ACTIVE = "controller.slinky.slurm.net/active"
POD_NAME = "nodeset.slinky.slurm.net/pod-name"
POD_INDEX = "nodeset.slinky.slurm.net/pod-index"
POD_HOSTNAME = "nodeset.slinky.slurm.net/pod-hostname"
SCALING_MODE = "nodeset.slinky.slurm.net/scaling-mode"
POD_PROTECT = "nodeset.slinky.slurm.net/pod-protect"
CLUSTER = "slinky.slurm.net/cluster"
REVISION = "controller.kubernetes.io/hash"
APP_NAME = "app.kubernetes.io/name"
APP_INSTANCE = "app.kubernetes.io/instance"
APP_COMPONENT = "app.kubernetes.io/component"

#: Annotations with which users control a NodeSet; its children must not inherit them.
NOT_INHERITED = (FORCE_DELETE, ROLLBACK_TO, RETRY_GROWTH)

LABELS = (
    MetadataName(ACTIVE, "controller pod", "operator", '"true" on the pod of the active slurmctld'),
    MetadataName(POD_NAME, "worker pod", "operator", "name of the pod"),
    MetadataName(POD_INDEX, "worker pod", "operator", "padded ordinal, in StatefulSet mode"),
    MetadataName(POD_HOSTNAME, "worker pod", "operator", "host name, which is the Slurm node name"),
    MetadataName(SCALING_MODE, "worker pod", "operator", "scaling mode in which the pod was created"),
    MetadataName(
        POD_PROTECT,
        "worker pod",
        "operator",
        '"true" while the worker runs or may run jobs; the PodDisruptionBudget selects this label',
    ),
    MetadataName(CLUSTER, "worker pod", "operator", "name of the Controller"),
    MetadataName(REVISION, "worker pod, revision", "operator", "hash of the revision"),
    MetadataName(APP_NAME, "everything", "operator", "program: slurmctld, slurmdbd, slurmrestd, slurmd or login"),
    MetadataName(APP_INSTANCE, "everything", "operator", "name of the custom resource to which the object belongs"),
    MetadataName(APP_COMPONENT, "everything", "operator", "role: controller, accounting, restapi, worker or login"),
)

# --- finalizers and taints

RESERVATION_FINALIZER = "nodeset.slinky.slurm.net/reservation"
DRAIN_FINALIZER = "nodeset.slinky.slurm.net/drain"
USE_FINALIZER = "slinky.slurm.net/in-use"
WORKER_TAINT = "nodeset.slinky.slurm.net/worker"
BRIDGE_TAINT = "slinky.slurm.net/managed-node"

FINALIZERS_AND_TAINTS = (
    MetadataName(
        RESERVATION_FINALIZER, "NodeSet", "operator", "finalizer; removed when the reservation in Slurm is deleted"
    ),
    MetadataName(DRAIN_FINALIZER, "NodeSet", "operator", "finalizer; removed when all workers are drained and deleted"),
    MetadataName(
        USE_FINALIZER,
        "Controller, RestApi, Accounting",
        "operator",
        "finalizer; removed when no other object needs this one",
    ),
    MetadataName(WORKER_TAINT, "node", "user", "taint with the effect NoExecute; only workers tolerate it"),
    MetadataName(
        BRIDGE_TAINT,
        "node",
        "bridge",
        "taint of nodes whose pods Slurm schedules; one worker per node tolerates it",
    ),
)

# --- prefixes of values that the operator writes to Slurm

REASON_PREFIX = "slurm-operator: "
FEATURE_PREFIX = "k8s/"
RESERVATION_PREFIX = "SlurmOperatorMaint-"
