# SPDX-License-Identifier: Apache-2.0
"""Every annotation, label and marker, and who writes it.

Tools outside rely on these (topology writers, drainers, autoscalers), so they never change their meaning. The
reference documentation is rendered from the same tables.
"""

from typing import NamedTuple


class MetadataName(NamedTuple):
    """One row: the key, what carries it, who writes it, what it means."""

    key: str
    on: str
    by: str
    meaning: str


# --- annotations

POD_CORDON = "nodeset.slinky.slurm.net/pod-cordon"
POD_CORDON_OWNER = "nodeset.slinky.slurm.net/pod-cordon-owner"
POD_CONDEMNED = "nodeset.slinky.slurm.net/pod-condemned"
POD_DELETION_COST = "nodeset.slinky.slurm.net/pod-deletion-cost"
POD_DEADLINE = "nodeset.slinky.slurm.net/pod-deadline"
POD_NODE = "nodeset.slinky.slurm.net/node"
FORCE_DELETE = "nodeset.slinky.slurm.net/force-delete"
ROLLBACK_TO = "nodeset.slinky.slurm.net/rollback-to"
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
CONFIG_WORDS = "slinky.slurm.net/config-words"
CONFIG_GOOD = "slinky.slurm.net/config-last-good"
CONFIG_SINCE = "slinky.slurm.net/config-since"
CONFIG_TRIAL = "slinky.slurm.net/config-trial"
KEY_STAGE = "slinky.slurm.net/key-stage"
KEY_SINCE = "slinky.slurm.net/key-stage-since"
KEY_TOLD = "slinky.slurm.net/key-workers-told"
KEY_MOUNTED = "slinky.slurm.net/slurm-key-mounted"
KEY_ORIGIN = "slinky.slurm.net/key-origin"
KEY_ROTATION = "slinky.slurm.net/key-rotation"
GENERATE_KEYS = "slinky.slurm.net/generate-keys"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
MINIMUM_SLURM_VERSION = "slinky.slurm.net/minimum-slurm-version"

_ROLLS = "what was hashed; a change rolls the pods"

ANNOTATIONS = (
    MetadataName(POD_CORDON, "pod", "operator or user", '"true" drains the Slurm node of this worker'),
    MetadataName(
        POD_CORDON_OWNER, "pod", "operator", "who asked for the drain: user, node, scale-in, update or deletion"
    ),
    MetadataName(
        POD_CONDEMNED, "pod", "operator", "why this worker was chosen to go; a choice is never taken back silently"
    ),
    MetadataName(POD_DELETION_COST, "pod", "user", "an integer; workers with a lower one go first"),
    MetadataName(
        POD_DEADLINE, "pod", "operator", "RFC 3339 time at which the last job on the worker ends at the latest"
    ),
    MetadataName(
        POD_NODE, "pod", "operator", "the node that a worker of DaemonSet mode, or a pinned one, is meant for"
    ),
    MetadataName(
        FORCE_DELETE, "pod, NodeSet", "user", '"true" lets a worker that has to go be deleted without asking Slurm'
    ),
    MetadataName(ROLLBACK_TO, "NodeSet", "user", 'go back to a kept revision: its number, its name, or "previous"'),
    MetadataName(REVISION_CONTENTS, "revision", "operator", "digest of the keys and files that its workers have read"),
    MetadataName(NODE_CORDON_REASON, "node", "user", "reason to give Slurm when the node is cordoned"),
    MetadataName(HOSTNAME_OVERRIDE, "node", "user", "host name of the worker on this node, in DaemonSet mode"),
    MetadataName(TOPOLOGY, "node, copied to pod", "user or tool", "Slurm's dynamic topology of the node"),
    MetadataName(FEATURES, "node", "user or tool", "comma list; each becomes the Slurm feature k8s/<name>"),
    *(
        MetadataName(key, "pod template", "operator", _ROLLS)
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
    MetadataName(CONFIG_GENERATION, "ConfigMap", "operator", "number and digest of the configuration in it"),
    MetadataName(
        CONFIG_VERDICT, "ConfigMap", "operator", "of a generation: untried, good, unknown, bad, loaded or failed"
    ),
    MetadataName(CONFIG_WORDS, "ConfigMap", "operator", "of a generation: what slurmctld said against it"),
    MetadataName(CONFIG_GOOD, "ConfigMap", "operator", "the generation that slurmctld last ran, to go back to"),
    MetadataName(CONFIG_SINCE, "ConfigMap", "operator", "RFC 3339 time at which the generation in it was put to use"),
    MetadataName(CONFIG_TRIAL, "Controller", "user", '"off": configurations are used without being tried first'),
    MetadataName(KEY_STAGE, "keyring", "operator", "how far the rotation of a key is; Settled for none"),
    MetadataName(KEY_SINCE, "keyring", "operator", "RFC 3339 time at which that stage began"),
    MetadataName(KEY_TOLD, "keyring", "operator", "RFC 3339 time at which workers were told to read their keys again"),
    MetadataName(
        KEY_MOUNTED, "worker pod", "operator", "digest of the slurm keys that the pod is to find in its files"
    ),
    MetadataName(KEY_ORIGIN, "keyring", "operator", "digest of the first key, by which workers are known"),
    MetadataName(KEY_ROTATION, "keyring", "operator", "what a rotation does and waits for, in words"),
    MetadataName(
        GENERATE_KEYS, "Secret", "chart or user", "comma list; each key that is missing is made at random, once"
    ),
    MetadataName(DEFAULT_CONTAINER, "pod", "operator", "the container kubectl logs and exec choose"),
    MetadataName(MINIMUM_SLURM_VERSION, "chart", "chart", "the oldest Slurm that works with it"),
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

#: Wishes about a NodeSet itself, which must not reach its children.
OF_THE_SET = (FORCE_DELETE, ROLLBACK_TO)

LABELS = (
    MetadataName(ACTIVE, "controller pod", "operator", '"true" on the slurmctld that is in charge'),
    MetadataName(POD_NAME, "worker pod", "operator", "name of the pod"),
    MetadataName(POD_INDEX, "worker pod", "operator", "padded ordinal, in StatefulSet mode"),
    MetadataName(POD_HOSTNAME, "worker pod", "operator", "host name, which is the Slurm node name"),
    MetadataName(SCALING_MODE, "worker pod", "operator", "mode under which the pod was made"),
    MetadataName(
        POD_PROTECT, "worker pod", "operator", '"true" while jobs are or may be on it; a disruption budget selects it'
    ),
    MetadataName(CLUSTER, "worker pod", "operator", "name of the Controller"),
    MetadataName(REVISION, "worker pod, revision", "operator", "hash of the revision"),
    MetadataName(APP_NAME, "everything", "operator", "program: slurmctld, slurmdbd, slurmrestd, slurmd, login"),
    MetadataName(APP_INSTANCE, "everything", "operator", "name of the object it belongs to"),
    MetadataName(APP_COMPONENT, "everything", "operator", "controller, accounting, restapi, worker, login"),
)

# --- finalizers and taints

RESERVATION_FINALIZER = "nodeset.slinky.slurm.net/reservation"
DRAIN_FINALIZER = "nodeset.slinky.slurm.net/drain"
USE_FINALIZER = "slinky.slurm.net/in-use"
WORKER_TAINT = "nodeset.slinky.slurm.net/worker"

MARKERS = (
    MetadataName(RESERVATION_FINALIZER, "NodeSet", "operator", "finalizer: a reservation in Slurm must go first"),
    MetadataName(DRAIN_FINALIZER, "NodeSet", "operator", "finalizer: workers are drained before they are deleted"),
    MetadataName(
        USE_FINALIZER, "Controller, RestApi, Accounting", "operator", "finalizer: others need it until they are gone"
    ),
    MetadataName(WORKER_TAINT, "node", "user", "taint with effect NoExecute that only workers tolerate"),
)

# --- what is written into Slurm

REASON_PREFIX = "slurm-operator: "
FEATURE_PREFIX = "k8s/"
RESERVATION_PREFIX = "SlurmOperatorMaint-"
