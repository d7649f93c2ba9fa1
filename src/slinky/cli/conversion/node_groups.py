# SPDX-License-Identifier: Apache-2.0
"""Groups the nodes of a slurm.conf into NodeSets: nodes with equal settings that are in the same partitions. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slinky.cli.conversion.result import Untaken
from slinky.slurm.conf.node import parse_node_settings
from slinky.slurm.conf.text import ConfError, Line, Setting
from slinky.slurm.hostlist import HostlistError, expand, fold

#: Settings of a node that its pod decides, with the reason.
POD_SETTINGS = {
    "nodeaddr": "a worker has the address of its pod",
    "nodehostname": "a worker has the host name of its pod",
    "bcastaddr": "a worker has the address of its pod",
    "port": "slurmd has the same port in every pod",
    "state": "the state of a new worker is reported by slurmd",
    "reason": "the state of a new worker is reported by slurmd",
    "boards": "slurmd reads its hardware",
    "sockets": "slurmd reads its hardware",
    "socketsperboard": "slurmd reads its hardware",
    "corespersocket": "slurmd reads its hardware",
    "threadspercore": "slurmd reads its hardware",
    "procs": "slurmd reads its hardware",
    "tmpdisk": "slurmd reads its hardware",
}
#: Settings that become resources of the container slurmd.
RESOURCE_SETTINGS = ("cpus", "realmemory")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")
_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that become one NodeSet."""

    name: str
    hosts: tuple[str, ...]
    settings: Line


def expand_nodes(text: str) -> tuple[str, ...]:
    """The names of a hostlist. Raises `ConfError` for text that is none."""
    try:
        return tuple(expand(text))
    except HostlistError as error:
        raise ConfError(str(error)) from error


def group_nodes(lines: Iterable[tuple[str, Line]], memberships: Mapping[str, frozenset[str]]) -> list[NodeGroup]:
    """One group for the nodes of each line, divided where their partitions differ."""
    groups: list[NodeGroup] = []
    taken: set[str] = set()
    for names, settings in lines:
        hosts = expand_nodes(names)
        by_partitions: dict[frozenset[str], list[str]] = {}
        for host in hosts:
            by_partitions.setdefault(memberships.get(host, frozenset()), []).append(host)
        for members in by_partitions.values():
            name = _free_name(members[0], taken)
            groups.append(NodeGroup(name, tuple(members), settings))
    return groups


def node_set_values(group: NodeGroup) -> tuple[dict[str, Any], list[Untaken], list[str]]:
    """The values of a NodeSet, what was not taken, and notes."""
    kept: list[Setting] = []
    untaken: list[Untaken] = []
    own: dict[str, str] = {}
    where = f"NodeName={fold(group.hosts)}"
    for setting in group.settings:
        key = setting.key.lower()
        if key in RESOURCE_SETTINGS:
            own[key] = setting.value
        elif key in POD_SETTINGS:
            untaken.append(Untaken(f"{where} {setting.key}={setting.value}", POD_SETTINGS[key]))
        else:
            try:
                parse_node_settings(f"{setting.key}={setting.value}")
            except ConfError as error:
                untaken.append(Untaken(f"{where} {setting.key}={setting.value}", f"not a setting of a worker: {error}"))
            else:
                kept.append(setting)
    values: dict[str, Any] = {"replicas": len(group.hosts)}
    if resources := _resources(own, kept):
        values["slurmd"] = {"resources": resources}
    if kept:
        values["extraConfMap"] = {setting.key: setting.value for setting in kept}
    if len(group.hosts) == 1:
        notes = [f"{group.hosts[0]} becomes the worker {group.name}-0"]
    else:
        notes = [f"{fold(group.hosts)} become the workers {group.name}-0 to {group.name}-{len(group.hosts) - 1}"]
    if "nvidia.com/gpu" in str(resources):
        notes.append(f"nodesets.{group.name} asks for nvidia.com/gpu; change it for other device plugins or for DRA")
    return values, untaken, notes


def _resources(own: Mapping[str, str], kept: Iterable[Setting]) -> dict[str, Any]:
    requests: dict[str, Any] = {}
    if (cpus := own.get("cpus", "")).isdecimal():
        requests["cpu"] = int(cpus)
    if (memory := own.get("realmemory", "")).isdecimal():
        requests["memory"] = f"{memory}Mi"
    gres = next((setting.value for setting in kept if setting.has_key("Gres")), "")
    limits: dict[str, Any] = {"memory": requests["memory"]} if "memory" in requests else {}
    if gpus := sum(int(count) for count in _GPUS.findall(gres)):
        limits["nvidia.com/gpu"] = gpus
    return {name: part for name, part in (("requests", requests), ("limits", limits)) if part}


def _free_name(host: str, taken: set[str]) -> str:
    """A name for a NodeSet after its first node: `gpu` for `gpu001`, `gpu-b` for the next such group."""
    word = _WORD.sub("-", host.lower().rstrip("0123456789")).strip("-")[:40].rstrip("-") or "worker"
    word = word if word[0].isalpha() else f"n-{word}"
    name, count = word, 1
    while name in taken:
        count += 1
        name = f"{word}-{_letters(count)}"
    taken.add(name)
    return name


def _letters(number: int) -> str:
    """2 is `b`, 27 is `aa`: digits would look like the number of a worker."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
