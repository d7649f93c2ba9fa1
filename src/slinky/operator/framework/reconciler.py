# SPDX-License-Identifier: Apache-2.0
"""The base reconciler of all kinds: read the object, bring its children in line, write its status if it changed.

A kind subclasses `Reconciler` and implements `sync`, which returns the status and when to reconcile again. An error
that a person must correct (a missing reference, a value that Slurm would reject) becomes the condition Degraded and an
event.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from slinky.api.fields.conditions import DEGRADED, PROGRESSING, SLURM_REACHABLE, ObjectStatus
from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.kube.cache import Cache
from slinky.kube.conditions import condition_manifests, with_condition
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.errors import ErrorDecision, ErrorKind
from slinky.kube.finalizers import set_finalizers
from slinky.kube.resource import Resource, owned_by
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework.conditions import (
    ConditionState,
    ObjectHealth,
    blocked_health,
    previous_state,
    update_conditions,
)
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.slurm.conf import ConfError
from slinky.slurm.errors import AuthError, Rejected, Retryable, SlurmError
from slinky.slurm.tokens import TokenError

T = TypeVar("T", bound=HasMeta)

#: Keys that a controller without a setting of its own reconciles at the same time.
WORKERS = 4


#: Seconds between looks at an object whose pods are not ready, because some causes are reported only as events.
RECHECK_SECONDS = 5.0


class ReconcileResult(NamedTuple):
    """The status to write, and after how many seconds to reconcile again even if nothing changes."""

    status: ObjectStatus
    requeue_after: float | None = None


class Reconciler(Generic[T]):
    """Reconciles the objects of one kind."""

    resource: Resource[T]

    def __init__(
        self, context: Context, cache: Cache[T], *, group: Callable[[Key], str] | None = None, min_interval: float = 0.0
    ) -> None:
        self.context = context
        self.cache = cache
        name = self.resource.kind.lower()
        self.loop: ControlLoop[Key] = ControlLoop(
            f"{name}-controller",
            self.reconcile,
            workers=context.settings.workers(name),
            group=group,
            min_interval=min_interval,
            error_classifiers=(classify_error,),
            on_blocked=self.report_blocked,
            clock=context.clock,
        )
        self.loop.watch(cache, when=_needs_reconcile)
        for children in context.children.caches.values():
            self.loop.watch(children, owned_by(self.resource))
        context.runtime.add_controller(self.loop)

    async def sync(self, parent: T) -> ReconcileResult:
        """Bring the children of an object in line with its spec."""
        raise NotImplementedError

    async def finalize(self, parent: T) -> RequeueAfter | None:
        """Handle an object that is being deleted; Kubernetes deletes its children by their owner references."""
        return None

    def forget(self, key: Key) -> None:
        """Discard what is remembered of an object that no longer exists."""

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Reconcile one object."""
        parent = self.cache.get(key)
        if parent is None:
            self.forget(key)
            return None
        if parent.metadata.deleting:
            return await self.finalize(parent)
        result = await self.sync(parent)
        self._record_degraded(parent, result.status)
        await self.write_status(parent, result.status)
        return None if result.requeue_after is None else RequeueAfter(result.requeue_after)

    async def write_status(self, parent: T, status: ObjectStatus) -> None:
        """Write the whole status if it differs from the current one."""
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        if live == status:
            return
        WRITES.labels("status", self.resource.kind).inc()
        written = await self.context.client.apply_status(
            self.resource, parent.metadata.key, status_manifest(status), manager=FIELD_MANAGER
        )
        self.cache.record_write(written)

    async def set_finalizers(self, parent: T, finalizers: Iterable[str]) -> None:
        """Replace the finalizers of an object. Raises `Conflict` if the object has changed since it was read."""
        WRITES.labels("patch", self.resource.kind).inc()
        await set_finalizers(self.context.client, self.cache, parent, finalizers)

    async def report_blocked(self, key: Key, decision: ErrorDecision) -> None:
        """Report on the object what a person has to do."""
        parent = self.cache.get(key)
        if parent is None:
            return
        self.record_event(parent, decision.reason, decision.message, warning=True)
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        slurm = previous_state(live.conditions, SLURM_REACHABLE)
        health = blocked_health(decision.reason, decision.message, slurm)
        await self.write_status(parent, self.with_health(parent, health, **self.blocked_fields(parent)))

    def blocked_fields(self, parent: T) -> dict[str, Any]:
        """Return fields of the status that are known although the object is blocked."""
        return {}

    def _record_degraded(self, parent: T, status: ObjectStatus) -> None:
        """Record an event when an object becomes degraded, or when the reason changes."""
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        before, now = previous_state(live.conditions, DEGRADED), previous_state(status.conditions, DEGRADED)
        if now.value and (before.value, before.reason) != (now.value, now.reason):
            self.record_event(parent, now.reason, now.message, warning=True)

    def with_health(self, parent: T, health: ObjectHealth, **fields: Any) -> ObjectStatus:
        """Return the status of an object with these conditions and fields."""
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        generation = parent.metadata.generation
        now = self.context.clock.now()
        conditions = update_conditions(live.conditions, health, generation=generation, now=now)
        return msgspec.structs.replace(live, conditions=conditions, observed_generation=generation, **fields)

    def with_progress(self, parent: T, progressing: ConditionState) -> ObjectStatus:
        """Return the status of an object in which only the condition Progressing changes."""
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        conditions = with_condition(
            live.conditions,
            PROGRESSING,
            progressing.value,
            progressing.reason,
            progressing.message_for(PROGRESSING),
            generation=parent.metadata.generation,
            now=self.context.clock.now(),
        )
        return msgspec.structs.replace(live, conditions=conditions)

    def with_scale(
        self, parent: T, health: ObjectHealth, workload: ReplicaStatus | None, selector: str
    ) -> ObjectStatus:
        """Return the status of a kind that has a scale subresource."""
        replicas = workload or ReplicaStatus()
        counts = {"replicas": replicas.replicas, "ready_replicas": replicas.ready_replicas, "selector": selector}
        return self.with_health(parent, health, **counts)

    def record_event(self, parent: T, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event on the object."""
        self.context.recorder.record(self.resource.reference(parent), reason, message, warning=warning)

    def enqueue(self, keys: Iterable[Key]) -> None:
        """Reconcile these objects soon."""
        for key in keys:
            self.loop.queue.add(key)


def recheck_after(health: ObjectHealth) -> float | None:
    """Return when to reconcile an object again whose pods may fail without an event of their own."""
    return RECHECK_SECONDS if health.progressing.value or health.degraded.value else None


def status_manifest(status: ObjectStatus) -> dict[str, Any]:
    """Return a status as it is written.

    Numbers are written also when they are 0: without a value, the columns of `kubectl get` shift.
    """
    counts = {field.encode_name: 0 for field in msgspec.structs.fields(status) if type(field.default) is int}
    return {**counts, **msgspec.to_builtins(status), "conditions": condition_manifests(status.conditions)}


def classify_error(error: Exception) -> ErrorDecision | None:
    """Decide what an error of Slurm or of its configuration means for a reconcile."""
    if isinstance(error, ConfError):
        return ErrorDecision(ErrorKind.BLOCKED, "InvalidConfig", str(error))
    if isinstance(error, TokenError):
        return ErrorDecision(ErrorKind.BLOCKED, "InvalidKey", str(error))
    if isinstance(error, Retryable | AuthError):
        return ErrorDecision(ErrorKind.LATER, "SlurmUnreachable", str(error))
    if isinstance(error, Rejected | SlurmError):
        return ErrorDecision(ErrorKind.LATER, "SlurmRefused", str(error))
    return None


def _needs_reconcile(old: HasMeta | None, new: HasMeta | None) -> bool:
    """Ignore changes of the status, which this operator writes itself."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (before.generation, before.labels, before.annotations, before.finalizers, before.deletion_timestamp) != (
        after.generation, after.labels, after.annotations, after.finalizers, after.deletion_timestamp,
    )  # fmt: skip
