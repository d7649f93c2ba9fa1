# SPDX-License-Identifier: Apache-2.0
"""Finds workers without a NodeSet: `kubectl delete --cascade=orphan` deletes an object and keeps its children.

The labels of a worker name its NodeSet and its cluster. A new NodeSet of the same name adopts the worker; until then
the operator does nothing that would end the jobs on it.
"""

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.kube.cache import Cache
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import Pod
from slinky.operator.framework.context import Context

#: The finalizer that Kubernetes sets on an object whose children are to be kept.
ORPHAN_FINALIZER = "orphan"
#: Index of objects without an owner, by the NodeSet in their labels.
BY_NODE_SET = "orphans"
#: Index of running workers, by cluster and NodeSet.
BY_CLUSTER = "workers-by-cluster-and-node-set"


def is_orphaning(deleted: HasMeta) -> bool:
    """Return whether an object is being deleted with `--cascade=orphan`."""
    return ORPHAN_FINALIZER in deleted.metadata.finalizers


def former_node_set(child: HasMeta) -> tuple[Key, ...]:
    """Return the NodeSet that an object without an owner was created for."""
    meta = child.metadata
    return () if meta.deleting or meta.controller is not None else _labelled(child, metadata.APP_INSTANCE)


def index_by_node_set(child: HasMeta) -> tuple[str, ...]:
    """Return the values of the index `BY_NODE_SET`."""
    return tuple(map(str, former_node_set(child)))


def index_workers(pods: Cache[Pod]) -> None:
    """Add the index `BY_CLUSTER`."""
    pods.add_indexes({BY_CLUSTER: _cluster_and_node_set})


def worker_cluster(pod: Pod) -> tuple[Key, ...]:
    """Return the Controller of a worker; empty for other pods."""
    return _labelled(pod, metadata.CLUSTER)


def lacks_node_set(context: Context, pod: Pod | None) -> bool:
    """Return whether the NodeSet of a worker does not exist.

    The owner reference of the pod is no substitute: Kubernetes removes it some time after the NodeSet.
    """
    return pod is not None and any(context.node_sets.get(key) is None for key in _labelled(pod, metadata.APP_INSTANCE))


def missing_node_sets(context: Context, cluster: Key) -> list[str]:
    """Return the NodeSets of a cluster that do not exist although workers of theirs run."""
    pairs = (value.split(" ", 1) for value in context.pods.index_values(BY_CLUSTER))
    names = {name for worker_of, name in pairs if worker_of == str(cluster)}
    return sorted(name for name in names if context.node_sets.get(Key(cluster.namespace, name)) is None)


def _cluster_and_node_set(pod: Pod) -> tuple[str, ...]:
    if pod.finished or pod.metadata.deleting:
        return ()
    node_sets = _labelled(pod, metadata.APP_INSTANCE)
    return tuple(f"{cluster} {node_set.name}" for cluster in worker_cluster(pod) for node_set in node_sets)


def _labelled(child: HasMeta, label: str) -> tuple[Key, ...]:
    """Return the object that a label of a worker names, in the worker's namespace."""
    labels = child.metadata.labels
    is_worker = (labels.get(metadata.APP_NAME), labels.get(metadata.APP_COMPONENT)) == (SLURMD.app, SLURMD.component)
    return (Key(child.metadata.namespace, name),) if is_worker and (name := labels.get(label)) else ()
