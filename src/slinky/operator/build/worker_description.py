# SPDX-License-Identifier: Apache-2.0
"""What a NodeSet declares of its workers: the settings they register with, their shape, potential nodes. Pure.

slurmctld judges a job by the nodes it knows. A job that needs more nodes, devices or features than the workers that
exist right now have is refused at submission, or held for good as soon as slurmctld looks at it. Therefore a NodeSet
with autoscaling declares the workers that it may have as nodes of the state FUTURE: jobs that those could run wait for
them, and `sinfo --future` shows them. Such nodes run nothing and never register; the workers register under names of
their own, because a slurmd does not start with a name that slurm.conf has. Their names have an underscore, which no
host name of a pod has.
"""

from collections.abc import Mapping
from itertools import chain

from slinky.api.fields.autoscaling import Autoscaling
from slinky.api.nodeset import NodeSet
from slinky.insight.job_shape import MEGABYTE
from slinky.insight.tres import parse_gres
from slinky.insight.worker_pool import WorkerShape
from slinky.kube.quantity import Quantity
from slinky.operator.build.config_files import Files
from slinky.slurm import conf

#: Follows the name of the NodeSet in the names of its potential nodes.
POTENTIAL = "_future"
#: Files that define a topology. Slurm refuses gangs on nodes that are not in it, as potential nodes never are.
TOPOLOGY_FILES = frozenset({"topology.conf", "topology.yaml"})


def node_settings(node_set: NodeSet) -> dict[str, str]:
    """Settings with which a worker registers. Raises `ConfError` for text that must not reach a command line."""
    parsed = conf.parse_node_settings(node_set.spec.extra_conf)
    settings = {setting.key.lower(): (setting.key, setting.value) for setting in parsed}
    extra = [settings.pop(key, ("", ""))[1] for key in ("feature", "features")]
    features = sorted({conf.checked_name(node_set.slurm_name, "host name"), *filter(None, ",".join(extra).split(","))})
    pairs = {key[0].upper() + key[1:]: value for key, value in settings.values()}
    pairs["Features"] = ",".join(features)
    return dict(sorted(pairs.items()))


def declared_shape(node_set: NodeSet) -> WorkerShape:
    """What a worker offers according to `extraConf`, then the limits of the container; 0 for what neither says."""
    try:
        settings = {key.lower(): value for key, value in node_settings(node_set).items()}
    except conf.ConfError:
        settings = {}
    limits = {**_limits(node_set.spec.template.spec), **_limits(node_set.spec.slurmd)}
    sockets = _number(settings, "sockets") or 1
    cores = sockets * _number(settings, "corespersocket") * (_number(settings, "threadspercore") or 1)
    cpus = _number(settings, "cpus") or _number(settings, "procs") or cores or _quantity(limits, "cpu")
    memory = _number(settings, "realmemory") * MEGABYTE or _quantity(limits, "memory")
    features = {node_set.slurm_name, *filter(None, settings.get("features", "").split(","))}
    return WorkerShape(cpus, memory, tuple(sorted(parse_gres(settings.get("gres", "")).items())), frozenset(features))


def largest_size(policy: Autoscaling) -> int:
    """The largest number of workers that a policy allows at any time."""
    return max(chain([policy.max_replicas], (window.max_replicas or 0 for window in policy.windows)))


def potential_nodes(node_set: NodeSet) -> conf.NodeLine | None:
    """The workers that a NodeSet with autoscaling may have; None if the spec does not tell what a worker offers."""
    policy = node_set.autoscaling
    shape = declared_shape(node_set) if policy else WorkerShape(0)
    if policy is None or node_set.metadata.deleting or not (shape.cpus and shape.memory_bytes and largest_size(policy)):
        return None
    try:
        settings = node_settings(node_set)
    except conf.ConfError:
        return None  # such a NodeSet has no workers either; its own condition says why
    known = {key.lower() for key in settings}
    if not known & {"cpus", "procs", "sockets", "corespersocket", "boards"}:
        settings["CPUs"] = str(shape.cpus)
    if "realmemory" not in known:
        settings["RealMemory"] = str(shape.memory_bytes // MEGABYTE)
    settings.pop("State", None)
    names = f"{node_set.slurm_name}{POTENTIAL}[1-{largest_size(policy)}]"
    return conf.NodeLine(names, (*settings.items(), ("State", "FUTURE")))


def has_topology(extra_conf: str, files: Files) -> bool:
    """Whether the cluster has a topology other than the flat one."""
    lines = conf.parse(extra_conf)
    plugins = [item.value.lower() for line in lines for item in line if item.has_key("TopologyPlugin")]
    return any(plugin not in {"topology/flat", "topology/default"} for plugin in plugins) or bool(
        TOPOLOGY_FILES & {path.rpartition("/")[2] for path in files.config}
    )


def _number(settings: Mapping[str, str], key: str) -> int:
    text = settings.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0


def _limits(spec: Mapping[str, object]) -> Mapping[str, object]:
    resources = spec.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return limits if isinstance(limits, dict) else {}


def _quantity(limits: Mapping[str, object], name: str) -> int:
    try:
        return Quantity.parse(str(limits[name])).whole() if name in limits else 0
    except ValueError:
        return 0
