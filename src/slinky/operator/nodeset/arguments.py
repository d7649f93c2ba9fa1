# SPDX-License-Identifier: Apache-2.0
"""How slurmd is started: its arguments and environment, from checked words only. Pure.

`--conf` stands in one pair of single quotes because the published images let a shell read their arguments; ours takes
the quotes off. No value may hold a character with which it could leave them.
"""

from collections.abc import Mapping
from typing import Any

from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.quantity import Quantity
from slinky.operator.build.addresses import conf_server
from slinky.operator.build.pod_parts import Piece
from slinky.slurm.conf import checked_name, parse_node_settings


def node_conf(of: NodeSet) -> str:
    """What the worker tells Slurm about itself. Raises `ConfError` for text that must not reach a command line."""
    settings = {one.key.lower(): (one.key, one.value) for one in parse_node_settings(of.spec.extra_conf)}
    asked = [settings.pop(key, ("", ""))[1] for key in ("feature", "features")]
    features = sorted({checked_name(of.slurm_name, "host name"), *filter(None, ",".join(asked).split(","))})
    pairs = {key[0].upper() + key[1:]: value for key, value in settings.values()}
    pairs["Features"] = ",".join(features)
    return " ".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def arguments(of: NodeSet, controller: Controller) -> list[str]:
    """The arguments of slurmd."""
    return ["-Z", "--conf-server", conf_server(controller), "--conf", f"'{node_conf(of)}'"]


def environment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> list[Piece]:
    """What the worker may use of its machine (0: all of it), and where the machine stands."""
    limits = {**(_limits(pod)), **(_limits(container))}
    cores = Quantity.parse(limits["cpu"]).whole() if "cpu" in limits else 0
    memory = Quantity.parse(limits["memory"]).mebi() if "memory" in limits else 0
    place = {"fieldRef": {"fieldPath": f"metadata.annotations['{metadata.TOPOLOGY}']"}}
    return [
        {"name": "SLINKY_TOPOLOGY", "valueFrom": place},
        {"name": "POD_CPUS", "value": str(cores)},
        {"name": "POD_MEMORY", "value": str(memory)},
    ]


def _limits(of: Mapping[str, Any]) -> Mapping[str, Any]:
    return (of.get("resources") or {}).get("limits") or {}
