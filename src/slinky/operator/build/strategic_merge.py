# SPDX-License-Identifier: Apache-2.0
"""Merges a container or pod spec that a person wrote over the one that the operator builds. Pure.

The rules are those of a strategic merge patch: mappings merge by key, the lists in `MERGE_KEYS` by the key of their
items, and other lists are replaced. An empty value (null, empty text, list or mapping) keeps what the operator built;
false and 0 are values and replace it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slinky.kube.errors import Blocked

Tree = Mapping[str, Any]

#: The key by which the items of a list are merged, by the field of the list.
MERGE_KEYS = {
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
#: Fields that are objects and that the operator reads or merges.
OBJECTS = frozenset(
    {
        *("affinity", "nodeAffinity", "podAntiAffinity", "dnsConfig", "nodeSelector", "securityContext", "selector"),
        *("resources", "limits", "requests", "lifecycle", "startupProbe", "livenessProbe", "readinessProbe"),
    }
)
#: Lists that are concatenated: first the operator's items, then the person's.
APPENDED = frozenset({"args", "tolerations", "searches", "sources"})
#: Keys of which only one may be set, by the field that contains them. Setting another one replaces it and keeps the
#: rest, such as thresholds.
HANDLERS = frozenset({"httpGet", "tcpSocket", "exec", "grpc", "sleep"})
ONE_OF = {
    **dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe", "preStop", "postStart"), HANDLERS),
    "env": frozenset({"value", "valueFrom"}),
}


def merge(built: Tree, override: Tree) -> dict[str, Any]:
    """Return `override` merged over `built`; neither is changed. Raises `Blocked` for values of a wrong type."""
    check_types(override)
    result = dict(built)
    for key, value in override.items():
        if not _is_empty(value):
            result[key] = _merge_values(key, result[key], value) if key in result else value
    return result


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Sequence | Mapping) and not value)


def _merge_values(key: str, built: Any, override: Any) -> Any:
    if isinstance(built, Mapping) and isinstance(override, Mapping):
        return merge(_without_replaced(key, built, override), override)
    if isinstance(built, list) and isinstance(override, list):
        if key in MERGE_KEYS:
            return _merge_items(key, built, override)
        if key in APPENDED:
            return [*built, *(item for item in override if key == "args" or item not in built)]
    return override


def _without_replaced(key: str, built: Tree, override: Tree) -> Tree:
    """Return `built` without the keys that `override` excludes."""
    if key == "volumes":  # a volume of the same type is merged, so that sources can be added to it
        same = (built.keys() & override.keys()) - {"name"}
        return built if same or override.keys() <= {"name"} else {"name": built["name"]}
    exclusive = ONE_OF.get(key, frozenset())
    if not exclusive & override.keys():
        return built
    return {name: value for name, value in built.items() if name not in exclusive}


def check_types(spec: Tree) -> None:
    """Raise `Blocked` for a value that has another type than Kubernetes gives the field; the CRDs do not check it."""
    for key, value in spec.items():
        if _is_empty(value):
            continue
        if key in OBJECTS:
            if not isinstance(value, Mapping):
                raise Blocked("InvalidTemplate", f"{key} must be an object; correct the spec")
            check_types(value)
        elif key in MERGE_KEYS and not _is_list_of_objects(value, MERGE_KEYS[key]):
            text = f"{key} must be a list of objects with {MERGE_KEYS[key]}"
            raise Blocked("InvalidTemplate", f"{text}; correct the spec")


def _is_list_of_objects(value: Any, merge_key: str) -> bool:
    return isinstance(value, list) and all(_has_merge_key(item, merge_key) for item in value)


def _has_merge_key(item: Any, merge_key: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(merge_key), str | int | None)


def _merge_items(key: str, built: Sequence[Any], override: Sequence[Any]) -> list[Any]:
    result, merge_key = list(built), MERGE_KEYS[key]
    positions = {item.get(merge_key): position for position, item in enumerate(built)}
    for item in override:
        position = positions.get(item.get(merge_key))
        if position is None:
            result.append(item)
        else:
            result[position] = merge(_without_replaced(key, result[position], item), item)
    return result
