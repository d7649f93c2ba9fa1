# SPDX-License-Identifier: Apache-2.0
"""A person's container or pod, merged over the one that the operator builds.

The rules are those of a strategic merge: mappings merge by key, the lists of `IDENTITY` by what names their items, and
other lists are replaced. Nothing (null, empty text, empty list, empty mapping) leaves what is there; false and 0 are
values and count. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Tree = Mapping[str, Any]

#: Lists whose items have a name, by field; items of the same name merge.
IDENTITY = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "claims": "name",
}
#: Lists that grow: what is built comes first, then what was asked for.
GROWING = frozenset({"args", "tolerations", "searches", "sources"})
#: What there can be only one of, by field; naming another one replaces it and keeps the rest, such as thresholds.
HANDLERS = frozenset({"httpGet", "tcpSocket", "exec", "grpc", "sleep"})
ONE_OF = {
    **dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe", "preStop", "postStart"), HANDLERS),
    "env": frozenset({"value", "valueFrom"}),
}


def merged(built: Tree, asked: Tree) -> dict[str, Any]:
    """`asked` over `built`; neither is changed."""
    result = dict(built)
    for key, value in asked.items():
        if not _nothing(value):
            result[key] = _joined(key, result[key], value) if key in result else value
    return result


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | Sequence | Mapping) and not value)


def _joined(key: str, built: Any, asked: Any) -> Any:
    if isinstance(built, Mapping) and isinstance(asked, Mapping):
        return merged(_making_room(key, built, asked), asked)
    if isinstance(built, list) and isinstance(asked, list):
        if key in IDENTITY:
            return _by_name(key, built, asked)
        if key in GROWING:
            return [*built, *(item for item in asked if key == "args" or item not in built)]
    return asked


def _making_room(key: str, built: Tree, asked: Tree) -> Tree:
    """`built` without what `asked` takes the place of."""
    if key == "volumes":  # of one kind, so that sources can be added to it
        same = (built.keys() & asked.keys()) - {"name"}
        return built if same or asked.keys() <= {"name"} else {"name": built["name"]}
    rivals = ONE_OF.get(key, frozenset())
    return {name: value for name, value in built.items() if name not in rivals} if rivals & asked.keys() else built


def _by_name(key: str, built: Sequence[Any], asked: Sequence[Any]) -> list[Any]:
    result, name = list(built), IDENTITY[key]
    places = {item.get(name): place for place, item in enumerate(built)}
    for item in asked:
        place = places.get(item.get(name))
        if place is None:
            result.append(item)
        else:
            result[place] = merged(_making_room(key, result[place], item), item)
    return result
