# SPDX-License-Identifier: Apache-2.0
"""What a revision of workers is, and which of those that were kept is the one that is wanted. Pure.

A revision is kept as a ControllerRevision: its `data` are the fields of the NodeSet that make a worker what it is, its
annotation `CONTENTS` is a digest of the keys and files such a worker has read. Revisions are told apart by what they
mean and never by how they are written, so neither an upgrade of the operator nor one that another operator has kept
replaces a worker.
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

#: The fields of a NodeSet that make a worker what it is.
FIELDS = ("template", "slurmd", "logfile", "ssh", "extraConf", "ordinalPadding", "oversubscribeNode")
PREVIOUS = "previous"

_AMOUNTS = frozenset({"limits", "requests", "capacity"})
#: Marks of a patch, and what a server or a typed client adds to a template by itself.
_NOISE = frozenset({"$patch", "creationTimestamp"})


class Revision(Object, frozen=True):
    """A kept revision."""

    revision: int = 0
    data: Any = None

    @property
    def hash(self) -> str:
        """What its workers carry."""
        return self.metadata.labels.get(metadata.REVISION, "")

    @property
    def contents(self) -> str:
        """The digest of what its workers have read; empty if whoever kept it did not say."""
        return self.metadata.annotations.get(metadata.REVISION_CONTENTS, "")


REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions", Revision)


def template(of: NodeSet) -> dict[str, Any]:
    """What is kept of a NodeSet: only what was asked for, never what this release builds of it."""
    spec = msgspec.to_builtins(of.spec)
    return {"spec": {field: spec[field] for field in FIELDS if field in spec}}


def contents(hashes: WorkerHashes) -> str:
    """A digest of the keys and files that a worker reads."""
    return fingerprint({"slurmKey": hashes.slurm_key, "sshd": hashes.sshd, "sssd": hashes.sssd})


def same(one: Any, other: Any) -> bool:
    """Two kept templates mean the same workers."""
    return _meaning(one) == _meaning(other)


def chosen(kept: Iterable[Revision], data: Any, read: str) -> Revision | None:
    """The kept revision that is wanted; the newest, and rather one that says what its workers have read."""
    fitting = [found for found in kept if found.contents in {"", read} and same(found.data, data)]
    return max(fitting, key=lambda found: (bool(found.contents), found.revision), default=None)


def manifest(of: NodeSet, data: Any, read: str, number: int, collisions: int = 0) -> dict[str, Any]:
    """A revision to keep; `collisions` gives it another name where the first is taken by something else."""
    name = fingerprint({"data": data, "contents": read, "collisions": collisions})[:10]
    return REVISIONS.manifest(
        Key(of.metadata.namespace, f"{of.metadata.name}-{name}"),
        metadata={
            "labels": {**of.labels, metadata.REVISION: name},
            "annotations": {metadata.REVISION_CONTENTS: read},
            "ownerReferences": [NODE_SETS.owner(of)],
        },
        revision=number,
        data=written(data),
    )


def written(data: Any) -> msgspec.Raw:
    """Data as the API server itself would write them: it takes any other spelling of the same for a change.

    Whoever patches a revision, such as the garbage collector when a NodeSet is deleted alone, is refused otherwise.
    """
    text = msgspec.json.encode(data, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return msgspec.Raw(text.encode())


def newest(kept: Iterable[Revision]) -> int:
    """The highest number there is."""
    return max((found.revision for found in kept), default=0)


def surplus(kept: Collection[Revision], used: Collection[str], limit: int) -> list[Revision]:
    """Revisions to forget, oldest first: beyond the limit, and never one that a worker carries."""
    idle = sorted((found for found in kept if found.hash not in used), key=lambda found: found.revision)
    return idle[: max(0, len(idle) - limit)]


def current(kept: Iterable[Revision], carried: Mapping[str, int], wanted: Revision) -> str:
    """The name of the revision that most workers still have; the wanted one, once all have it."""
    old = [found for found in kept if carried.get(found.hash) and found.hash != wanted.hash]
    most = max(old, key=lambda found: (carried[found.hash], found.revision), default=wanted)
    return most.metadata.name


def asked(kept: Collection[Revision], text: str) -> Revision | None:
    """The revision that a person names: by its number, by its name, or the one before the newest."""
    ordered = sorted(kept, key=lambda found: found.revision)
    if text == PREVIOUS:
        return ordered[-2] if len(ordered) > 1 else None
    return next((found for found in ordered if text in {str(found.revision), found.metadata.name}), None)


def restored(of: NodeSet, data: Any) -> dict[str, Any]:
    """The merge patch that gives a NodeSet's spec the fields of a kept template."""
    live, wanted = template(of)["spec"], _without_noise(_spec(data))
    return _difference(live, {field: value for field, value in wanted.items() if field in FIELDS})


def _difference(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386: what turns one mapping into the other."""
    patch: dict[str, Any] = {key: None for key in live if key not in wanted}
    for key, value in wanted.items():
        before = live.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if deeper := _difference(before, value):
                patch[key] = deeper
        elif value != before:
            patch[key] = value
    return patch


def _spec(data: Any) -> Mapping[str, Any]:
    found = data.get("spec", data) if isinstance(data, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _without_noise(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_noise(inner) for key, inner in value.items() if key not in _NOISE}
    return [_without_noise(item) for item in value] if isinstance(value, list | tuple) else value


def _meaning(data: Any) -> dict[str, Any]:
    spec = _spec(data)
    return {field: found for field in FIELDS if (found := _plain(spec.get(field), field))}


def _plain(value: Any, name: str = "") -> Any:
    """A value without what says nothing, amounts by their size; false counts only where it is not the default."""
    if isinstance(value, Mapping):
        if name in _AMOUNTS:
            return {key: _amount(amount) for key, amount in value.items()}
        kept = {key: _plain(inner, key) for key, inner in value.items() if key not in _NOISE}
        if name == "ssh" and not kept.get("enabled"):
            return {}
        return {key: inner for key, inner in kept.items() if not _empty(inner)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def _amount(text: Any) -> Any:
    try:
        return Quantity.parse(text).nano
    except ValueError:
        return text
