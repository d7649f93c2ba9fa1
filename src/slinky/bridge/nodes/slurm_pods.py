# SPDX-License-Identifier: Apache-2.0
"""The pods of Slurm and of slinky among the pods of other schedulers: workers, and pods that always need a node.

A worker offers its node to Slurm with its own slurmd, so such a node must not be registered a second time. Without the
control pods (slurmctld, slurmdbd, slurmrestd, the operator, the bridge, their webhooks) nothing could remove a taint
that evicts them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec.structs import force_setattr

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMCTLD, SLURMD, SLURMDBD, SLURMRESTD
from slinky.bridge import names
from slinky.bridge.views.pods import ForeignPod, Toleration
from slinky.kube import Cache, Node
from slinky.kube.views import Taint

#: Label of the pods of the operator, the bridge and their webhooks.
PART_OF, SLINKY = "app.kubernetes.io/part-of", "slinky"
CONTROL_DAEMONS = frozenset({SLURMCTLD.app, SLURMDBD.app, SLURMRESTD.app})
#: Effects of a taint that keep pods off a node.
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})

#: Indexes of a cache for `SlurmPods`.
INDEXES: Mapping[str, Callable[[ForeignPod], Iterable[str]]] = {
    "worker node": lambda pod: (pod.spec.node_name,) if pod.worker_host else (),
    "worker host": lambda pod: (pod.worker_host,) if pod.worker_host else (),
    "control": lambda pod: ("control",) if pod.is_control else (),
}


def mark_slurm_pod(pod: ForeignPod) -> None:
    """Set the role of a decoded pod from its labels; a control pod keeps its tolerations of the bridge's taint."""
    labels = pod.metadata.labels
    app = labels.get(metadata.APP_NAME, "")
    if app == SLURMD.app:
        force_setattr(pod, "worker_host", labels.get(metadata.POD_HOSTNAME, ""))
    if app in CONTROL_DAEMONS or labels.get(PART_OF) == SLINKY:
        relevant = (item for item in pod.spec.tolerations if item.key in ("", names.MANAGED_TAINT))
        force_setattr(pod, "is_control", True)
        force_setattr(pod, "tolerations", tuple(relevant))


class SlurmPods:
    """Workers and control pods on the nodes of the cluster."""

    def __init__(self, pods: Cache[ForeignPod]) -> None:
        """`pods` has the `INDEXES`."""
        self._pods = pods

    def workers_on(self, node: str) -> list[ForeignPod]:
        """The workers on a node."""
        return self._pods.by("worker node", node)

    def nodes_of_worker(self, host: str) -> list[str]:
        """The nodes of the workers with this host name."""
        return [pod.spec.node_name for pod in self._pods.by("worker host", host)]

    def find_intolerant(self, taint: Taint, node: str = "") -> str:
        """A control pod (on this node) that does not tolerate a taint; empty if there is none."""
        pods = (pod for pod in self._pods.by("control", "control") if node in ("", pod.spec.node_name))
        return min((str(pod.key) for pod in pods if not _tolerates(pod.tolerations, taint)), default="")


def _tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(
        item.effect in ("", taint.effect) and (item.operator == "Exists" or item.value == taint.value)
        for item in tolerations
    )


def has_other_home(node: Node, nodes: Iterable[Node], about_to_be_tainted: Collection[str]) -> bool:
    """Whether a node other than this one is ready, not cordoned, and without a taint that keeps pods off it."""
    return any(
        other.metadata.name != node.metadata.name
        and other.metadata.name not in about_to_be_tainted
        and other.ready
        and not other.spec.unschedulable
        and not other.metadata.deleting
        and not any(taint.effect in BLOCKING_EFFECTS for taint in other.spec.taints)
        for other in nodes
    )
