# SPDX-License-Identifier: Apache-2.0
"""What a revision of workers is, and which stored revision belongs to the current spec. Pure.

A revision is stored as a ControllerRevision: its `data` are the fields of the NodeSet that determine its workers, and
an annotation has a digest of the keys and files that its workers have read. Revisions are compared by meaning, not by
spelling, so neither an upgrade of the operator nor a revision that another operator stored replaces a worker.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.quantity import Quantity
from slinky.kube.resource import Resource
from slinky.kube.types import Key, Object
from slinky.operator.framework.diff import fingerprint
from slinky.operator.nodeset.objects import WorkerHashes

#: The fields of a NodeSet that determine its workers.
FIELDS = ("template", "slurmd", "logfile", "ssh", "extraConf", "ordinalPadding", "oversubscribeNode")
PREVIOUS = "previous"

_QUANTITIES = frozenset({"limits", "requests", "capacity"})
#: Keys without meaning: patch directives, and what a server or a typed client adds to a template.
_IGNORED = frozenset({"$patch", "creationTimestamp"})


class Revision(Object, frozen=True):
    """A stored revision."""

    revision: int = 0
    data: Any = None

    @property
    def hash(self) -> str:
        """Hash of the revision, as in the label of its workers."""
        return self.metadata.labels.get(metadata.REVISION, "")

    @property
    def contents(self) -> str:
        """Digest of the keys and files that its workers have read; empty if another operator stored it without."""
        return self.metadata.annotations.get(metadata.REVISION_CONTENTS, "")


REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions", Revision)


def template(node_set: NodeSet) -> dict[str, Any]:
    """The stored fields of a NodeSet: only what the spec sets, not what the operator derives from it."""
    spec = msgspec.to_builtins(node_set.spec)
    return {"spec": {field: spec[field] for field in FIELDS if field in spec}}


def newest_image(stored: Iterable[Revision]) -> str | None:
    """The image of slurmd in the newest revision, empty if it names none; None if there is no revision."""
    newest = max(stored, key=lambda item: item.revision, default=None)
    if newest is None:
        return None
    slurmd = ((newest.data or {}).get("spec") or {}).get("slurmd") or {}
    return str(slurmd.get("image") or "")


def with_image(slurmd: Mapping[str, Any], image: str) -> dict[str, Any]:
    """The fields of slurmd with the image of a stored revision, or without one if the revision names none."""
    others = {field: value for field, value in slurmd.items() if field != "image"}
    return {**others, "image": image} if image else others


def contents_digest(hashes: WorkerHashes) -> str:
    """Digest of the keys and files that a worker reads."""
    return fingerprint({"slurmKey": hashes.slurm_key, "sshd": hashes.sshd, "sssd": hashes.sssd})


def same_workers(first: Any, second: Any) -> bool:
    """Whether two stored templates mean the same workers."""
    return _normalized(first) == _normalized(second)


def find_match(stored: Iterable[Revision], data: Any, contents: str) -> Revision | None:
    """The stored revision with this template and these contents; the newest, and preferably one with a digest."""
    matches = [item for item in stored if item.contents in {"", contents} and same_workers(item.data, data)]
    return max(matches, key=lambda item: (bool(item.contents), item.revision), default=None)


def build_manifest(node_set: NodeSet, data: Any, contents: str, number: int, collisions: int = 0) -> dict[str, Any]:
    """A revision to store; `collisions` changes its name if another object has taken the first one."""
    name = fingerprint({"data": data, "contents": contents, "collisions": collisions})[:10]
    return REVISIONS.manifest(
        Key(node_set.metadata.namespace, f"{node_set.metadata.name}-{name}"),
        metadata={
            "labels": {**node_set.labels, metadata.REVISION: name},
            "annotations": {metadata.REVISION_CONTENTS: contents},
            "ownerReferences": [NODE_SETS.owner(node_set)],
        },
        revision=number,
        data=encode_data(data),
    )


def encode_data(data: Any) -> msgspec.Raw:
    """Encode data exactly as the API server does, which treats any other spelling as a change.

    The data of a revision is immutable, so the API server would otherwise refuse every patch of the revision, such as
    that of the garbage collector when a NodeSet is deleted and its children are orphaned.
    """
    text = msgspec.json.encode(data, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return msgspec.Raw(text.encode())


def highest_number(stored: Iterable[Revision]) -> int:
    """The highest number of a stored revision."""
    return max((item.revision for item in stored), default=0)


def surplus_revisions(stored: Collection[Revision], used: Collection[str], limit: int) -> list[Revision]:
    """Revisions to delete, oldest first: those beyond the limit, except those that a worker has."""
    unused = sorted((item for item in stored if item.hash not in used), key=lambda item: item.revision)
    return unused[: max(0, len(unused) - limit)]


def current_name(stored: Iterable[Revision], used: Mapping[str, int], update: Revision) -> str:
    """Name of the old revision that most workers still have; of the new one once all workers have it."""
    old = [item for item in stored if used.get(item.hash) and item.hash != update.hash]
    return max(old, key=lambda item: (used[item.hash], item.revision), default=update).metadata.name


def find_requested(stored: Collection[Revision], text: str) -> Revision | None:
    """The revision that a user names: by its number, by its name, or the one before the newest."""
    ordered = sorted(stored, key=lambda item: item.revision)
    if text == PREVIOUS:
        return ordered[-2] if len(ordered) > 1 else None
    return next((item for item in ordered if text in {str(item.revision), item.metadata.name}), None)


def restore_patch(node_set: NodeSet, data: Any) -> dict[str, Any]:
    """The merge patch that gives the spec of a NodeSet the fields of a stored template."""
    live, desired = template(node_set)["spec"], _without_ignored(_spec(data))
    return _merge_patch(live, {field: value for field, value in desired.items() if field in FIELDS})


def _merge_patch(live: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch (RFC 7386) that turns one mapping into the other."""
    patch: dict[str, Any] = {key: None for key in live if key not in desired}
    for key, value in desired.items():
        old = live.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch


def _spec(data: Any) -> Mapping[str, Any]:
    spec = data.get("spec", data) if isinstance(data, Mapping) else {}
    return spec if isinstance(spec, Mapping) else {}


def _without_ignored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_ignored(inner) for key, inner in value.items() if key not in _IGNORED}
    return [_without_ignored(item) for item in value] if isinstance(value, list | tuple) else value


def _normalized(data: Any) -> dict[str, Any]:
    spec = _spec(data)
    return {field: value for field in FIELDS if (value := _normalize(spec.get(field), field))}


def _normalize(value: Any, name: str = "") -> Any:
    """Remove empty and ignored values and parse quantities; `false` is kept, because it may not be the default."""
    if isinstance(value, Mapping):
        if name in _QUANTITIES:
            return {key: _quantity(amount) for key, amount in value.items()}
        inner = {key: _normalize(item, key) for key, item in value.items() if key not in _IGNORED}
        if name == "ssh" and not inner.get("enabled"):
            return {}
        return {key: item for key, item in inner.items() if not _is_empty(item)}
    if isinstance(value, list | tuple):
        return [_normalize(item) for item in value]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def _quantity(text: Any) -> Any:
    try:
        return Quantity.parse(text).nano
    except ValueError:
        return text
