# SPDX-License-Identifier: Apache-2.0
"""Converts a slurm.conf to values of the chart `slurm`. Pure.

Nodes become NodeSets, partitions stay, other settings become `controller.extraConfMap`. Settings that the operator
decides itself are not taken; the table says why.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from slinky.cli.conversion.node_groups import NodeGroup, expand_nodes, group_nodes, node_set_values
from slinky.cli.conversion.result import Conversion, Untaken
from slinky.slurm.conf.slurm import checked_cluster_name
from slinky.slurm.conf.text import ConfError, Line, Setting, parse
from slinky.slurm.hostlist import fold

_ADDRESS = "the operator sets the addresses of slurmctld; controller.ha adds standby controllers"
_PORT = "ports are those of the containers"
_USER = "the images run slurmctld as slurm and slurmd as root"
_PATH = "paths are those of the images"
_AUTH = "daemons use auth/slurm and JWT with keys of the operator (slurmKey, jwtKey)"
_DATABASE = "credentials of the database belong to slurmdbd (accounting.storageConfig)"
_SCRIPT = "put the script itself into {} or an existing ConfigMap into its Refs"

#: Settings that the operator decides, and why they are not taken; keys in lower case.
OWNED = {
    **dict.fromkeys(
        ("slurmctldhost", "controlmachine", "controladdr", "backupcontroller", "backupaddr", "slurmctldaddr"), _ADDRESS
    ),
    **dict.fromkeys(("slurmctldport", "slurmdport"), _PORT),
    **dict.fromkeys(("slurmuser", "slurmduser"), _USER),
    **dict.fromkeys(("slurmctldpidfile", "slurmdpidfile", "slurmdspooldir", "plugindir"), _PATH),
    **dict.fromkeys(("slurmctldlogfile", "slurmdlogfile", "slurmschedlogfile"), "daemons log to standard output"),
    "statesavelocation": "the state is on a volume (controller.persistence)",
    **dict.fromkeys(("authtype", "credtype", "cryptotype", "authalttypes", "authaltparameters", "authinfo"), _AUTH),
    **dict.fromkeys(
        (
            "accountingstorageuser",
            "accountingstoragepass",
            "accountingstorageloc",
            "accountingstoragebackuphost",
            "accountingstorageexternalhost",
        ),
        _DATABASE,
    ),
    "prolog": _SCRIPT.format("prologScripts"),
    "epilog": _SCRIPT.format("epilogScripts"),
    "prologslurmctld": _SCRIPT.format("prologSlurmctldScripts"),
    "epilogslurmctld": _SCRIPT.format("epilogSlurmctldScripts"),
    "maxnodecount": "the operator counts the workers that may exist",
    "metricstype": "set controller.metrics.enabled",
    "suspendprogram": "workers come and go by nodesets.NAME.autoscaling",
    "resumeprogram": "workers come and go by nodesets.NAME.autoscaling",
}
#: Kinds of lines that have no meaning with workers that are pods.
LINES = {
    "downnodes": "workers are drained with `slinky drain`",
    "frontendname": "front ends are not supported by Slurm any more",
    "nodeset": "the operator defines a NodeSet of Slurm for each entry of nodesets",
}
_ACCOUNTING = ("accountingstoragetype", "accountingstoragehost", "accountingstorageport")
#: Files beside slurm.conf that do not name nodes.
PORTABLE_FILES = ("cgroup.conf", "job_container.conf", "acct_gather.conf", "mpi.conf", "oci.conf", "job_submit.lua")
_WITH_NODES = {
    "gres.conf": "it names devices of hosts; the resources of pods name them (docs/operator/gpus.md)",
    "topology.conf": "it names hosts; annotate Kubernetes nodes instead (docs/operator/workers.md)",
    "topology.yaml": "it names hosts; annotate Kubernetes nodes instead (docs/operator/workers.md)",
}


def convert_slurm_conf(text: str, files: Mapping[str, str]) -> Conversion:
    """Convert a slurm.conf and the files beside it. Raises `ConfError` for text that slurmctld would not read."""
    lines = parse(text)
    general = [setting for line in lines for setting in line if not _is_definition(line)]
    values: dict[str, Any] = {}
    untaken: list[Untaken] = []
    notes: list[str] = []
    _take_general(general, values, untaken, notes)
    untaken += [
        Untaken(f"{first.key}={first.value}", LINES[first.key.lower()])
        for first, *_ in lines
        if first.key.lower() in LINES
    ]
    nodes, partitions = _defined(lines, "NodeName"), _defined(lines, "PartitionName")
    groups = group_nodes(nodes, _memberships(partitions))
    for group in groups:
        node_set, refused, hints = node_set_values(group)
        values.setdefault("nodesets", {})[group.name] = node_set
        untaken += refused
        notes += hints
    _take_partitions(partitions, groups, values, untaken)
    _take_files(files, values, untaken)
    return Conversion("slurm", values, tuple(untaken), tuple(notes), _flat(lines), tuple(_resulting(values)))


def _take_general(
    settings: Iterable[Setting], values: dict[str, Any], untaken: list[Untaken], notes: list[str]
) -> None:
    accounting: dict[str, str] = {}
    extra: dict[str, str] = {}
    for setting in settings:
        key = setting.key.lower()
        if key == "clustername":
            try:
                values["clusterName"] = checked_cluster_name(setting.value)
            except ConfError as error:
                untaken.append(Untaken(f"ClusterName={setting.value}", str(error)))
        elif key in _ACCOUNTING:
            accounting[key] = setting.value
        elif key in OWNED:
            value = "..." if key == "accountingstoragepass" else setting.value
            untaken.append(Untaken(f"{setting.key}={value}", OWNED[key]))
        else:
            extra[setting.key] = setting.value
    if extra:
        values["controller"] = {"extraConfMap": extra}
    if accounting.get("accountingstoragetype", "").endswith("slurmdbd"):
        host = accounting.get("accountingstoragehost", "localhost")
        port = accounting.get("accountingstorageport", "6819")
        values["accounting"] = {
            "enabled": True,
            "external": True,
            "externalConfig": {"host": host, "port": int(port) if port.isdecimal() else 6819},
        }
        notes.append(
            f"slurmdbd stays at {host}; it must have the cluster's slurm key (slurmKey.secretRef), or set "
            "accounting.external to false and accounting.storageConfig to its database"
        )


def _is_definition(line: Line) -> bool:
    return line[0].key.lower() in ("nodename", "partitionname", *LINES)


def _defined(lines: Iterable[Line], kind: str) -> list[tuple[str, Line]]:
    """Names and settings of the lines of a kind; those of earlier DEFAULT lines are added."""
    defaults: dict[str, Setting] = {}
    defined: list[tuple[str, Line]] = []
    for first, *rest in lines:
        if not first.has_key(kind):
            continue
        own = {setting.key.lower(): setting for setting in rest}
        if first.value.upper() == "DEFAULT":
            defaults |= own
        else:
            defined.append((first.value, tuple((defaults | own).values())))
    return defined


def _nodes_of(settings: Line) -> str:
    return next((setting.value for setting in settings if setting.has_key("Nodes")), "")


def _memberships(partitions: Iterable[tuple[str, Line]]) -> dict[str, frozenset[str]]:
    """The partitions of each node that is named in one; ALL is the same for every node."""
    found: dict[str, frozenset[str]] = {}
    for name, settings in partitions:
        nodes = _nodes_of(settings)
        for host in () if nodes.upper() == "ALL" else expand_nodes(nodes) if nodes else ():
            found[host] = found.get(host, frozenset()) | {name}
    return found


def _take_partitions(
    partitions: Iterable[tuple[str, Line]], groups: list[NodeGroup], values: dict[str, Any], untaken: list[Untaken]
) -> None:
    for name, settings in partitions:
        nodes = _nodes_of(settings)
        hosts = set() if nodes.upper() == "ALL" or not nodes else set(expand_nodes(nodes))
        chosen = ["ALL"] if nodes.upper() == "ALL" else [group.name for group in groups if hosts & set(group.hosts)]
        known = {host for group in groups for host in group.hosts}
        if missing := sorted(hosts - known):
            untaken.append(Untaken(f"PartitionName={name} Nodes={fold(missing)}", "no NodeName line defines them"))
        if not chosen:
            untaken.append(Untaken(f"PartitionName={name}", "it has no nodes; a partition needs an entry of nodesets"))
            continue
        options: dict[str, str] = {}
        for setting in settings:
            if setting.has_key("AllocNodes"):
                untaken.append(Untaken(f"PartitionName={name} AllocNodes={setting.value}", "it names hosts"))
            elif not setting.has_key("Nodes"):
                options[setting.key] = setting.value
        values.setdefault("partitions", {})[name] = {"enabled": True, "nodesets": chosen, "configMap": options}


def _take_files(files: Mapping[str, str], values: dict[str, Any], untaken: list[Untaken]) -> None:
    for name, text in sorted(files.items()):
        if name in _WITH_NODES:
            untaken.append(Untaken(name, _WITH_NODES[name]))
        elif name in PORTABLE_FILES:
            values.setdefault("configFiles", {})[name] = text


def _flat(lines: Iterable[Line]) -> tuple[str, ...]:
    return tuple(
        sorted(
            " ".join(f"{setting.key}={_shown(setting)}" for setting in part)
            for line in lines
            for part in ([line] if _is_definition(line) else [(setting,) for setting in line])
        )
    )


def _shown(setting: Setting) -> str:
    return "..." if setting.has_key("AccountingStoragePass") else setting.value


def _resulting(values: Mapping[str, Any]) -> Iterable[str]:
    """The settings of slurm.conf that result from the values, without those that the operator adds."""
    lines = [f"{key}={value}" for key, value in values.get("controller", {}).get("extraConfMap", {}).items()]
    if "clusterName" in values:
        lines.append(f"ClusterName={values['clusterName']}")
    if "accounting" in values:
        where = values["accounting"]["externalConfig"]
        lines += ["AccountingStorageType=accounting_storage/slurmdbd", f"AccountingStorageHost={where['host']}"]
        lines.append(f"AccountingStoragePort={where['port']}")
    for name, node_set in values.get("nodesets", {}).items():
        count = node_set["replicas"]
        hosts = f"{name}-[0-{count - 1}]" if count > 1 else f"{name}-0"
        options = "".join(f" {key}={value}" for key, value in node_set.get("extraConfMap", {}).items())
        lines.append(f"NodeName={hosts}{options}")
    for name, partition in values.get("partitions", {}).items():
        options = "".join(f" {key}={value}" for key, value in partition["configMap"].items())
        lines.append(f"PartitionName={name} Nodes={','.join(partition['nodesets'])}{options}")
    return sorted(lines)
