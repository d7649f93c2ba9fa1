# SPDX-License-Identifier: Apache-2.0
"""Objects that the operator makes: applied when they differ from what is wanted, removed when they are not wanted.

Everything is server-side apply under one field manager, so that what leaves a spec leaves its children too. An object
that is as wanted costs no request; see `differing` for what that means. One of the same name that somebody else made is
never touched: applied over, it would do our work instead of its own, and go with its new owner.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slinky.api.names import metadata as keys
from slinky.api.names.child_names import ROLES
from slinky.api.names.wellknown import API_VERSION
from slinky.kube.cache import Cache
from slinky.kube.client import KubeClient
from slinky.kube.errors import Blocked, Invalid, Later, NotFound
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import Key, ObjectMeta
from slinky.kube.views import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    ReplicaStatus,
)
from slinky.observe import Log
from slinky.operator.framework.diff import FINGERPRINT, contains, fingerprint, marked
from slinky.operator.metrics import WRITES

log = Log("slinky.operator.framework.children")

#: Selects what belongs to a Slurm cluster, whichever release of whichever operator made it.
OURS = f"{keys.APP_COMPONENT} in ({', '.join(sorted(role.component for role in ROLES))})"

#: What the server filled in for another way to update, which it refuses beside ours.
LEFT = {"spec.updateStrategy.rollingUpdate"}


class Child(msgspec.Struct, frozen=True, gc=True, rename="camel"):
    """An object that the operator makes, whole enough to be compared."""

    metadata: ObjectMeta
    spec: Any = None
    data: Any = None
    immutable: bool = False
    status: ReplicaStatus = ReplicaStatus()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key

    def comparable(self) -> dict[str, Any]:
        """The parts that a manifest may set."""
        meta = msgspec.to_builtins(self.metadata)
        return {"metadata": meta, "spec": self.spec, "data": self.data, "immutable": self.immutable}


KINDS: tuple[Resource[Any], ...] = (
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    VOLUME_CLAIMS,
)


class Children:
    """Everything the operator has made, and how it is kept as wanted."""

    def __init__(self, runtime: Runtime, namespace: str, manager: str, further: Iterable[Resource[Any]] = ()) -> None:
        """`further` names kinds that not every API server has."""
        self._client: KubeClient = runtime.client
        self._manager = manager
        self.caches: Mapping[str, Cache[Child]] = {
            kind.name: runtime.cache(kind.viewed_as(Child), namespace=namespace, labels=OURS)
            for kind in (*KINDS, *further)
        }
        # What the server made of a manifest that it does not store verbatim (quantities, defaults inside lists).
        self._settled: dict[tuple[str, Key], tuple[str, str]] = {}

    def find(self, resource: Resource[Any], key: Key) -> Child | None:
        """The live object."""
        return self.caches[resource.name].get(key)

    def progress(self, resource: Resource[Any], key: Key) -> tuple[ReplicaStatus | None, bool]:
        """How a workload does, and whether that is about its latest spec."""
        live = self.find(resource, key)
        if live is None:
            return None, False
        return live.status, live.status.observed_generation >= live.metadata.generation

    def rolled(self, resource: Resource[Any], key: Key, marks: Mapping[str, str]) -> bool:
        """Whether all pods of a workload were made with these annotations, and one of them is ready."""
        live = self.find(resource, key)
        if live is None or not marks.items() <= live.spec["template"]["metadata"].get("annotations", {}).items():
            return False
        status, replicas = live.status, live.spec.get("replicas", 1)
        observed = status.observed_generation >= live.metadata.generation
        there = status.updated_replicas == status.replicas == replicas
        return observed and there and (status.ready_replicas > 0 or not replicas)

    async def ensure(self, resource: Resource[Any], manifest: Mapping[str, Any], *, adopt: bool = False) -> Child:
        """Make the object as wanted. Raises `Blocked` for one that is somebody else's, unless it is to be adopted."""
        wanted = marked(manifest)
        key = Key(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        live = self.find(resource, key)
        if live is not None and self._is(resource, live, wanted):
            return live
        if live is not None and live.metadata.deleting:
            raise Later(f"{resource.kind} {key} is on its way out")
        if not adopt:
            there = live or await self._client.find(resource.viewed_as(Child), key)
            if there is not None and _strange(there, wanted):
                text = f"{resource.kind} {key.name} was made by somebody else, so nothing is changed about it"
                raise Blocked("NameTaken", f"{text}; rename or delete it")
        return await self._apply(resource, key, wanted, live)

    async def remove(self, resource: Resource[Any], key: Key, owner: str) -> None:
        """Delete the object if it is there and belongs to this owner."""
        live = self.find(resource, key)
        if live is None or live.metadata.deleting:
            return
        if not any(found.uid == owner for found in live.metadata.owner_references):
            return
        await self.delete(resource, live)

    async def delete(self, resource: Resource[Any], live: Child) -> None:
        """Delete this very object."""
        WRITES.labels("delete", resource.kind).inc()
        try:
            left = await self._client.delete(resource.viewed_as(Child), live.key, uid=live.metadata.uid)
        except NotFound:
            left = None
        self.caches[resource.name].record_deletion(live, left)

    async def patch(self, resource: Resource[Any], live: Child, metadata: Mapping[str, Any]) -> None:
        """Change the metadata of this very object."""
        WRITES.labels("patch", resource.kind).inc()
        body = {"metadata": {**metadata, "uid": live.metadata.uid}}
        self.caches[resource.name].record_write(await self._client.patch(resource.viewed_as(Child), live.key, body))

    def _is(self, resource: Resource[Any], live: Child, wanted: Mapping[str, Any]) -> bool:
        mark = wanted["metadata"]["annotations"][FINGERPRINT]
        if live.metadata.annotations.get(FINGERPRINT) != mark:
            return False
        if contains(live.comparable(), {k: v for k, v in wanted.items() if k in {"metadata", "spec", "data"}}):
            return True
        return self._settled.get((resource.name, live.key)) == (mark, _version(live))

    async def _apply(self, resource: Resource[Any], key: Key, wanted: Mapping[str, Any], live: Child | None) -> Child:
        WRITES.labels("apply", resource.kind).inc()
        kind = resource.viewed_as(Child)
        try:
            made = await self._client.apply(kind, wanted, manager=self._manager)
        except Invalid as error:
            if resource is STATEFUL_SETS and live is not None and _fixed(error):
                await self._client.delete(resource, key, uid=live.metadata.uid, propagation="Orphan")
                raise Later(f"StatefulSet {key} is replaced around its pods", after=1) from None
            raise
        log.info("applied", kind=resource.kind, name=str(key))
        self._settled[resource.name, key] = (wanted["metadata"]["annotations"][FINGERPRINT], _version(made))
        return self.caches[resource.name].record_write(made)


def _version(live: Child) -> str:
    """What changes with the spec: the generation, or where there is none a digest of the content."""
    return str(live.metadata.generation) if live.metadata.generation else fingerprint({"d": live.data, "s": live.spec})


def _fixed(error: Invalid) -> bool:
    """Whether nothing is wrong but that a StatefulSet cannot become this one; its pods and claims stay when it is
    replaced. With anything else wrong there would be nothing to replace it by.
    """
    return {cause.field for cause in error.causes} - LEFT == {"spec"}


def _strange(live: Child, wanted: Mapping[str, Any]) -> bool:
    """Whether an object is not of one of our kinds: neither by an owner nor, where it has none, by its labels."""
    if live.metadata.owner_references:
        return not any(owner.api_version == API_VERSION for owner in live.metadata.owner_references)
    named = {label: wanted["metadata"]["labels"].get(label) for label in (keys.APP_NAME, keys.APP_INSTANCE)}
    return not named.items() <= live.metadata.labels.items()
