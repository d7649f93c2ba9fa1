# SPDX-License-Identifier: Apache-2.0
"""String interning: one copy of each repeated string.

Ten thousand pods repeat the same namespaces, labels, owners, nodes and reasons. After decoding, each of these strings
is replaced by one shared copy, which halves the memory of a cached object. In this package only this module writes
to frozen structs, and it only replaces a string by an equal one.
"""

from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from slinky.kube.types import HasMeta, ObjectMeta

if TYPE_CHECKING:
    from slinky.kube.views import Pod

# The pool is cleared when it has more strings than this, because the uids of owners change for as long as the process
# runs.
_LIMIT = 100_000
_pool: dict[str, str] = {}


def intern_text(text: str) -> str:
    """The shared copy of `text`."""
    if len(_pool) > _LIMIT:
        _pool.clear()
    return _pool.setdefault(text, text)


def intern_metadata(item: HasMeta) -> None:
    """Intern the repeated strings in the metadata of an object."""
    _intern_meta(item.metadata)


def _intern_meta(meta: ObjectMeta) -> None:
    intern = _pool.setdefault
    force_setattr(meta, "namespace", intern_text(meta.namespace))
    for values in (meta.labels, meta.annotations):
        for name, value in values.items():
            values[name] = intern(value, value)
    for owner in meta.owner_references:
        force_setattr(owner, "uid", intern(owner.uid, owner.uid))
        force_setattr(owner, "name", intern(owner.name, owner.name))
        force_setattr(owner, "kind", intern(owner.kind, owner.kind))
        force_setattr(owner, "api_version", intern(owner.api_version, owner.api_version))
    if meta.finalizers:
        force_setattr(meta, "finalizers", tuple(intern(name, name) for name in meta.finalizers))


def intern_pod(pod: "Pod") -> None:
    """Intern the repeated strings in a pod."""
    _intern_meta(pod.metadata)
    intern = _pool.setdefault
    spec, status = pod.spec, pod.status
    force_setattr(spec, "node_name", intern(spec.node_name, spec.node_name))
    force_setattr(spec, "scheduler_name", intern(spec.scheduler_name, spec.scheduler_name))
    force_setattr(status, "host_ip", intern(status.host_ip, status.host_ip))
    force_setattr(status, "phase", intern(status.phase, status.phase))
    for condition in status.conditions:
        force_setattr(condition, "type", intern(condition.type, condition.type))
        force_setattr(condition, "status", intern(condition.status, condition.status))
        force_setattr(condition, "reason", intern(condition.reason, condition.reason))
        if timestamp := condition.last_transition_time:
            force_setattr(condition, "last_transition_time", intern(timestamp, timestamp))
    for container in status.container_statuses:
        force_setattr(container, "name", intern(container.name, container.name))
