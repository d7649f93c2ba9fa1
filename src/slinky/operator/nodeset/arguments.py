# SPDX-License-Identifier: Apache-2.0
"""Arguments and environment of slurmd, built from validated words only. Pure.

The value of `--conf` is in single quotes, because the published images pass their arguments through a shell; our
image removes the quotes. No value may contain a character that could end the quotes.
"""

from collections.abc import Mapping
from typing import Any

from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.quantity import Quantity
from slinky.operator.build.cluster_dns import conf_server
from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.build.worker_description import node_settings


def node_conf(node_set: NodeSet) -> str:
    """Settings with which the worker registers. Raises `ConfError` for text that must not reach a command line."""
    return " ".join(f"{key}={value}" for key, value in node_settings(node_set).items())


def arguments(node_set: NodeSet, controller: Controller) -> list[str]:
    """The arguments of slurmd."""
    return ["-Z", "--conf-server", conf_server(controller), "--conf", f"'{node_conf(node_set)}'"]


def environment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> list[JsonObject]:
    """Variables with the topology of the node and the CPUs and memory that the worker may use (0: all)."""
    limits = {**(_limits(pod)), **(_limits(container))}
    cores = Quantity.parse(limits["cpu"]).whole() if "cpu" in limits else 0
    memory = Quantity.parse(limits["memory"]).mebi() if "memory" in limits else 0
    topology = {"fieldRef": {"fieldPath": f"metadata.annotations['{metadata.TOPOLOGY}']"}}
    return [
        {"name": "SLINKY_TOPOLOGY", "valueFrom": topology},
        {"name": "POD_CPUS", "value": str(cores)},
        {"name": "POD_MEMORY", "value": str(memory)},
    ]


def limited_resources(container: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the resources that a container has a limit for."""
    return tuple(sorted(_limits(container)))


def _limits(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("resources") or {}).get("limits") or {}
