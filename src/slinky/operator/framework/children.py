# SPDX-License-Identifier: Apache-2.0
"""Child objects: applied when they differ from their manifest, deleted when they are no longer needed.

All writes are server-side apply under one field manager, so that a field that is removed from a spec is removed from
the child too. A child that already matches its manifest costs no request; `diff` defines what "matches" means. An
object of the same name that this operator did not create is never changed: applying over it would take it away from its
owner, and deleting the parent would delete it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from slinky.api.names import metadata as keys
from slinky.api.names.child_names import ROLES, SLURMCTLD_TRIAL, VERSION_READER
from slinky.api.names.wellknown import API_VERSION, FIELD_MANAGER
from slinky.kube.cache import Cache
from slinky.kube.client import KubeClient
from slinky.kube.errors import BadRequest, Blocked, Invalid, Later, NotFound
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import Key, Object, ObjectMeta
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
from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.framework.diff import FINGERPRINT, contains, fingerprint, with_fingerprint
from slinky.operator.metrics import WRITES

log = Log("slinky.operator.framework.children")

#: Label selector of the objects of a Slurm cluster; objects made by slurm-operator match it too. Many applications have
#: components of these names, so the name of the daemon is compared as well: their objects stay out of the caches.
CHILD_SELECTOR = ",".join(
    (
        f"{keys.APP_NAME} in ({', '.join(sorted(role.app for role in (*ROLES, SLURMCTLD_TRIAL, VERSION_READER)))})",
        f"{keys.APP_COMPONENT} in ({', '.join(sorted(role.component for role in ROLES))})",
    )
)

#: Fields that the API server has set for another update strategy, and that it rejects with the wanted one.
DEFAULTED_FIELDS = {"spec.updateStrategy.rollingUpdate"}
#: What Kubernetes 1.37 and newer say of each immutable field; older versions name only the spec.
IMMUTABLE = "field is immutable"

#: The kind of the Prometheus operator, which not every API server serves.
SERVICE_MONITORS = Resource("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", Object)


class Child(msgspec.Struct, frozen=True, gc=True, rename="camel"):
    """A child object with the fields that are compared with its manifest."""

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
        """Return the fields that a manifest may set."""
        meta = msgspec.to_builtins(self.metadata)
        return {"metadata": meta, "spec": self.spec, "data": self.data, "immutable": self.immutable}


class ChildrenPlan(NamedTuple):
    """Manifests to apply, in order, and objects to delete."""

    apply: tuple[tuple[Resource[Any], JsonObject], ...] = ()
    delete: tuple[tuple[Resource[Any], Key], ...] = ()


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
    """Caches of all child objects, and the writes that keep them equal to their manifests."""

    def __init__(self, runtime: Runtime, namespace: str, optional_kinds: Iterable[Resource[Any]] = ()) -> None:
        """`optional_kinds` are further kinds that this API server serves."""
        self._client: KubeClient = runtime.client
        self.caches: Mapping[str, Cache[Child]] = {
            kind.name: runtime.cache(kind.viewed_as(Child), namespace=namespace, labels=CHILD_SELECTOR)
            for kind in (*KINDS, *optional_kinds)
        }
        # Fingerprint and version of the last apply, for manifests that the server does not store verbatim (it
        # normalizes quantities and sets defaults inside lists).
        self._applied: dict[tuple[str, Key], tuple[str, str]] = {}

    def find(self, resource: Resource[Any], key: Key) -> Child | None:
        """Return the live object, if it exists."""
        return self.caches[resource.name].get(key)

    def workload_status(self, resource: Resource[Any], key: Key) -> tuple[ReplicaStatus | None, bool]:
        """Return the status of a StatefulSet or Deployment, and whether it describes the latest spec."""
        live = self.find(resource, key)
        if live is None:
            return None, False
        return live.status, live.status.observed_generation >= live.metadata.generation

    def is_rolled_out(self, resource: Resource[Any], key: Key, annotations: Mapping[str, str]) -> bool:
        """Return whether all pods of a workload have these annotations and at least one of the pods is ready."""
        live = self.find(resource, key)
        if live is None or not annotations.items() <= live.spec["template"]["metadata"].get("annotations", {}).items():
            return False
        status, replicas = live.status, live.spec.get("replicas", 1)
        observed = status.observed_generation >= live.metadata.generation
        updated = status.updated_replicas == status.replicas == replicas
        return observed and updated and (status.ready_replicas > 0 or not replicas)

    async def carry_out(self, plan: ChildrenPlan, owner: str) -> None:
        """Apply and delete the objects of a plan; `owner` is the uid of the parent object."""
        for resource, manifest in plan.apply:
            await self.apply(resource, manifest)
        for resource, key in plan.delete:
            await self.delete_owned(resource, key, owner)

    async def apply(self, resource: Resource[Any], manifest: Mapping[str, Any], *, adopt: bool = False) -> Child:
        """Apply the manifest if the live object differs from it.

        Raises `Blocked` if an object of that name exists that this operator did not create, unless `adopt` is set.
        """
        desired = with_fingerprint(manifest)
        key = Key(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        live = self.find(resource, key)
        if live is not None and self._matches(resource, live, desired):
            return live
        if live is not None and live.metadata.deleting:
            raise Later(f"{resource.kind} {key} is being deleted")
        if not adopt:
            existing = live or await self._client.find(resource.viewed_as(Child), key)
            if existing is not None and _is_foreign(existing, desired):
                text = f"{resource.kind} {key.name} exists and was not created by this operator"
                raise Blocked("NameTaken", f"{text}; rename or delete it")
        return await self._apply(resource, key, desired, live)

    async def delete_owned(self, resource: Resource[Any], key: Key, owner: str) -> None:
        """Delete the object if it exists and has an owner reference to `owner`."""
        live = self.find(resource, key)
        if live is None or live.metadata.deleting:
            return
        if not any(reference.uid == owner for reference in live.metadata.owner_references):
            return
        await self.delete(resource, live)

    async def delete(self, resource: Resource[Any], live: Child) -> None:
        """Delete this object, and not a later one of the same name."""
        WRITES.labels("delete", resource.kind).inc()
        try:
            remaining = await self._client.delete(resource.viewed_as(Child), live.key, uid=live.metadata.uid)
        except NotFound:
            remaining = None
        self.caches[resource.name].record_deletion(live, remaining)

    async def patch(self, resource: Resource[Any], live: Child, metadata: Mapping[str, Any]) -> None:
        """Change the metadata of this object, and not of a later one of the same name."""
        WRITES.labels("patch", resource.kind).inc()
        body = {"metadata": {**metadata, "uid": live.metadata.uid}}
        self.caches[resource.name].record_write(await self._client.patch(resource.viewed_as(Child), live.key, body))

    def _matches(self, resource: Resource[Any], live: Child, desired: Mapping[str, Any]) -> bool:
        digest = desired["metadata"]["annotations"][FINGERPRINT]
        if live.metadata.annotations.get(FINGERPRINT) != digest:
            return False
        if contains(live.comparable(), {k: v for k, v in desired.items() if k in {"metadata", "spec", "data"}}):
            return True
        return self._applied.get((resource.name, live.key)) == (digest, _version(live))

    async def _apply(self, resource: Resource[Any], key: Key, desired: Mapping[str, Any], live: Child | None) -> Child:
        WRITES.labels("apply", resource.kind).inc()
        try:
            applied = await self._client.apply(resource.viewed_as(Child), desired, manager=FIELD_MANAGER)
        except Invalid as error:
            if resource is STATEFUL_SETS and live is not None and changes_immutable_fields(error):
                await self._client.delete(resource, key, uid=live.metadata.uid, propagation="Orphan")
                raise Later(f"StatefulSet {key} is recreated; its pods keep running", after=1) from None
            raise
        except BadRequest as error:
            # The server reads an apply as YAML, which refuses some JSON.
            text = f"the API server cannot read {resource.kind} {key.name}: {error.status.message}"
            raise Blocked("Invalid", f"{text}; remove control characters and keys of over 1,024 characters") from error
        log.info("applied", kind=resource.kind, name=str(key))
        self._applied[resource.name, key] = (desired["metadata"]["annotations"][FINGERPRINT], _version(applied))
        return self.caches[resource.name].record_write(applied)


def container_image(live: Child, container: str) -> str | None:
    """Return the image of a container of a live StatefulSet or Deployment."""
    containers = (((live.spec or {}).get("template") or {}).get("spec") or {}).get("containers") or ()
    return next((item.get("image") for item in containers if item.get("name") == container), None)


def _version(live: Child) -> str:
    """Return a value that changes with the spec: the generation, or a digest for kinds without one."""
    return str(live.metadata.generation) if live.metadata.generation else fingerprint({"d": live.data, "s": live.spec})


def changes_immutable_fields(error: Invalid) -> bool:
    """Return whether the only errors are that fields of a StatefulSet are immutable, or left by another writer.

    Then the StatefulSet can be recreated around its pods and claims. With any other error the new one would be rejected
    too.
    """
    causes = [cause for cause in error.causes if cause.field not in DEFAULTED_FIELDS]
    return bool(error.causes) and all(cause.field == "spec" or IMMUTABLE in cause.message for cause in causes)


def _is_foreign(live: Child, desired: Mapping[str, Any]) -> bool:
    """Return whether an object belongs to another program: by its owners, or by its labels if it has no owner."""
    if live.metadata.owner_references:
        return not any(owner.api_version == API_VERSION for owner in live.metadata.owner_references)
    identity = {label: desired["metadata"]["labels"].get(label) for label in (keys.APP_NAME, keys.APP_INSTANCE)}
    return not identity.items() <= live.metadata.labels.items()
