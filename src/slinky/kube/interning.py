# SPDX-License-Identifier: Apache-2.0
"""One copy of each repeated string.

Ten thousand pods repeat the same namespaces, labels, owners, nodes and reasons; after decoding, these are
replaced by one shared copy, which halves what a cached object costs. This is the only module that writes to
frozen structs, and it only swaps a string for an equal one.
"""

from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from slinky.kube.types import HasMeta, ObjectMeta

if TYPE_CHECKING:
    from slinky.kube.views import Pod

# Beyond this many different strings the pool starts anew: uids of owners come and go for as long as a process
# lives.
_LIMIT = 100_000
_pool: dict[str, str] = {}


def intern_text(text: str) -> str:
    """The one copy of `text`."""
    if len(_pool) > _LIMIT:
        _pool.clear()
    return _pool.setdefault(text, text)


def intern_metadata(found: HasMeta) -> None:
    """Share what repeats in any object's metadata."""
    _share(found.metadata)


def _share(meta: ObjectMeta) -> None:
    keep = _pool.setdefault
    force_setattr(meta, "namespace", intern_text(meta.namespace))
    for texts in (meta.labels, meta.annotations):
        for name, value in texts.items():
            texts[name] = keep(value, value)
    for owner in meta.owner_references:
        force_setattr(owner, "uid", keep(owner.uid, owner.uid))
        force_setattr(owner, "name", keep(owner.name, owner.name))
        force_setattr(owner, "kind", keep(owner.kind, owner.kind))
        force_setattr(owner, "api_version", keep(owner.api_version, owner.api_version))
    if meta.finalizers:
        force_setattr(meta, "finalizers", tuple(keep(name, name) for name in meta.finalizers))


def intern_pod(pod: "Pod") -> None:
    """Share what repeats in a pod."""
    _share(pod.metadata)
    keep = _pool.setdefault
    spec, status = pod.spec, pod.status
    force_setattr(spec, "node_name", keep(spec.node_name, spec.node_name))
    force_setattr(spec, "scheduler_name", keep(spec.scheduler_name, spec.scheduler_name))
    force_setattr(status, "host_ip", keep(status.host_ip, status.host_ip))
    force_setattr(status, "phase", keep(status.phase, status.phase))
    for condition in status.conditions:
        force_setattr(condition, "type", keep(condition.type, condition.type))
        force_setattr(condition, "status", keep(condition.status, condition.status))
        force_setattr(condition, "reason", keep(condition.reason, condition.reason))
        if when := condition.last_transition_time:
            force_setattr(condition, "last_transition_time", keep(when, when))
    for container in status.container_statuses:
        force_setattr(container, "name", keep(container.name, container.name))
