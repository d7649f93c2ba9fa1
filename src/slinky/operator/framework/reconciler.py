# SPDX-License-Identifier: Apache-2.0
"""The frame of every kind's controller: find the object, act, write its status if that changed.

A kind subclasses `Keeper` and fills in `act`, which returns the status it computed and when to look again. What blocks
an object (a missing reference, a value Slurm would refuse) becomes its Degraded condition and an event.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from slinky.api.fields.conditions import SLURM_REACHABLE, ObjectStatus
from slinky.kube.cache import Cache
from slinky.kube.conditions import condition_manifests
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.errors import ErrorDecision, ErrorKind
from slinky.kube.finalizers import set_finalizers
from slinky.kube.resource import Resource, owned_by
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework.conditions import ObjectHealth, blocked, conditions, held
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.slurm.conf import ConfError
from slinky.slurm.errors import AuthError, Rejected, Retryable, SlurmError
from slinky.slurm.tokens import TokenError

T = TypeVar("T", bound=HasMeta)


WORKERS = 4


class ReconcileResult(NamedTuple):
    """The status to write, and after how many seconds to look again even if nothing changes."""

    status: ObjectStatus
    again: float | None = None


class Reconciler(Generic[T]):
    """Keeps objects of one kind as they are wanted."""

    resource: Resource[T]

    def __init__(
        self, world: Context, cache: Cache[T], *, group: Callable[[Key], str] | None = None, min_interval: float = 0.0
    ) -> None:
        self.world = world
        self.cache = cache
        name = self.resource.kind.lower()
        self.controller: ControlLoop[Key] = ControlLoop(
            f"{name}-controller",
            self.reconcile,
            workers=world.settings.workers.get(name, WORKERS),
            group=group,
            min_interval=min_interval,
            error_classifiers=(judge,),
            on_blocked=self.tell_blocked,
            clock=world.clock,
        )
        self.controller.watch(cache, when=_matters)
        for children in world.children.caches.values():
            self.controller.watch(children, owned_by(self.resource))
        world.runtime.add_controller(self.controller)

    async def act(self, found: T) -> ReconcileResult:
        """Make the world as this object wants it."""
        raise NotImplementedError

    async def depart(self, found: T) -> RequeueAfter | None:
        """Somebody asked for this object to go; its children follow by their owner references."""
        return None

    def forget(self, key: Key) -> None:
        """The object is gone."""

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """One look at one object."""
        found = self.cache.get(key)
        if found is None:
            self.forget(key)
            return None
        if found.metadata.deleting:
            return await self.depart(found)
        outcome = await self.act(found)
        await self.write_status(found, outcome.status)
        return None if outcome.again is None else RequeueAfter(outcome.again)

    async def write_status(self, found: T, status: ObjectStatus) -> None:
        """Write the whole status, if it is not there already."""
        live: ObjectStatus = found.status  # type: ignore[attr-defined]
        if live == status:
            return
        WRITES.labels("status", self.resource.kind).inc()
        made = await self.world.client.apply_status(
            self.resource, found.metadata.key, written(status), manager=self.world.settings.manager
        )
        self.cache.record_write(made)

    async def set_finalizers(self, item: T, finalizers: Iterable[str]) -> None:
        """Replace the finalizers of an object; `Conflict` if it has changed since it was read."""
        WRITES.labels("patch", self.resource.kind).inc()
        await set_finalizers(self.world.client, self.cache, item, finalizers)

    async def tell_blocked(self, key: Key, judged: ErrorDecision) -> None:
        """Say on the object itself what a person has to do."""
        found = self.cache.get(key)
        if found is None:
            return
        self.note(found, judged.reason, judged.message, warning=True)
        said: ObjectStatus = found.status  # type: ignore[attr-defined]
        slurm = held(said.conditions, SLURM_REACHABLE)
        await self.write_status(found, self.with_health(found, blocked(judged.reason, judged.message, slurm)))

    def with_health(self, found: T, health: ObjectHealth, **fields: Any) -> ObjectStatus:
        """The object's status with these conditions and fields."""
        live: ObjectStatus = found.status  # type: ignore[attr-defined]
        generation = found.metadata.generation
        said = conditions(live.conditions, health, generation=generation, now=self.world.clock.now())
        return msgspec.structs.replace(live, conditions=said, observed_generation=generation, **fields)

    def with_scale(self, found: T, health: ObjectHealth, workload: ReplicaStatus | None, selector: str) -> ObjectStatus:
        """The status of a kind that `kubectl scale` knows."""
        there = workload or ReplicaStatus()
        counts = {"replicas": there.replicas, "ready_replicas": there.ready_replicas, "selector": selector}
        return self.with_health(found, health, **counts)

    def note(self, found: T, reason: str, message: str, *, warning: bool = False) -> None:
        """An event on the object."""
        self.world.recorder.record(self.resource.reference(found), reason, message, warning=warning)

    def enqueue(self, keys: Iterable[Key]) -> None:
        """Look at these soon."""
        for key in keys:
            self.controller.queue.add(key)


def written(status: ObjectStatus) -> dict[str, Any]:
    """A status as it is written: a number also when it is 0, since columns and scripts would take the next for it."""
    counts = {found.encode_name: 0 for found in msgspec.structs.fields(status) if type(found.default) is int}
    return {**counts, **msgspec.to_builtins(status), "conditions": condition_manifests(status.conditions)}


def judge(error: Exception) -> ErrorDecision | None:
    """What errors of Slurm and of its configuration mean for a reconcile."""
    if isinstance(error, ConfError):
        return ErrorDecision(ErrorKind.BLOCKED, "InvalidConfig", str(error))
    if isinstance(error, TokenError):
        return ErrorDecision(ErrorKind.BLOCKED, "InvalidKey", str(error))
    if isinstance(error, Retryable | AuthError):
        return ErrorDecision(ErrorKind.LATER, "SlurmUnreachable", str(error))
    if isinstance(error, Rejected | SlurmError):
        return ErrorDecision(ErrorKind.LATER, "SlurmRefused", str(error))
    return None


def _matters(old: HasMeta | None, new: HasMeta | None) -> bool:
    """A status of our own writing is no reason to look again."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (before.generation, before.labels, before.annotations, before.finalizers, before.deletion_timestamp) != (
        after.generation, after.labels, after.annotations, after.finalizers, after.deletion_timestamp,
    )  # fmt: skip
