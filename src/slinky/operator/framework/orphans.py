# SPDX-License-Identifier: Apache-2.0
"""What has lost its owner: `kubectl delete --cascade=orphan` takes an object away and leaves its children running.

A worker still says by its labels of which NodeSet and cluster it was. By that a new set of the same name takes it over,
and until then nothing is done that would hurt the work on it.
"""

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.kube.cache import Cache
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import Pod
from slinky.operator.framework.context import Context

#: The finalizer by which Kubernetes says that children are to stay.
ORPHANING = "orphan"
#: Names of indexes: of what nobody owns by its NodeSet, and of living workers by cluster and NodeSet.
BY_SET, HOMES = "orphans", "homes"


def stays_behind(found: HasMeta) -> bool:
    """Whoever deleted this object wants its children to live on."""
    return ORPHANING in found.metadata.finalizers


def set_of(found: HasMeta) -> tuple[Key, ...]:
    """The NodeSet that something was made for and that does not own it any more."""
    meta = found.metadata
    return () if meta.deleting or meta.controller is not None else _named(found, metadata.APP_INSTANCE)


def by_set(found: HasMeta) -> tuple[str, ...]:
    """Index of orphans by their NodeSet."""
    return tuple(map(str, set_of(found)))


def watch_homes(pods: Cache[Pod]) -> None:
    """Know of which sets of which cluster there are workers."""
    pods.add_indexes({HOMES: _homes})


def cluster_of(pod: Pod) -> tuple[Key, ...]:
    """The cluster of a worker."""
    return _named(pod, metadata.CLUSTER)


def homeless(world: Context, pod: Pod | None) -> bool:
    """A worker whose NodeSet does not exist; whether its pod still names an owner tells less, and later."""
    return pod is not None and any(world.node_sets.get(key) is None for key in _named(pod, metadata.APP_INSTANCE))


def lost_sets(world: Context, cluster: Key) -> list[str]:
    """NodeSets of a cluster that do not exist any more though workers of theirs live on."""
    homes = (value.split(" ", 1) for value in world.pods.index_values(HOMES))
    names = {name for home, name in homes if home == str(cluster)}
    return sorted(name for name in names if world.node_sets.get(Key(cluster.namespace, name)) is None)


def _homes(pod: Pod) -> tuple[str, ...]:
    if pod.finished or pod.metadata.deleting:
        return ()
    sets = _named(pod, metadata.APP_INSTANCE)
    return tuple(f"{cluster} {of.name}" for cluster in cluster_of(pod) for of in sets)


def _named(found: HasMeta, label: str) -> tuple[Key, ...]:
    labels = found.metadata.labels
    worker = labels.get(metadata.APP_COMPONENT) == SLURMD.component
    return (Key(found.metadata.namespace, name),) if worker and (name := labels.get(label)) else ()
