# SPDX-License-Identifier: Apache-2.0
"""Finds out why pods do not run; reads events only of pods and workloads whose status does not say it.

A kubelet reports a volume that it cannot mount, and a StatefulSet a pod that it cannot create, only as events. They are
listed on demand and not watched: most clusters have many events, and few of them matter here.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from slinky.kube.errors import KubeError
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import EVENTS, KubeEvent, Pod
from slinky.operator.framework.context import Context
from slinky.operator.framework.failure_causes import (
    Failure,
    creation_failure,
    find_failure,
    is_creation_failure,
    is_unexplained,
    refused_creation,
)

#: Pods of one object whose events are read; more pods usually fail for the same cause.
MAX_LOOKUPS = 3
#: Seconds for which the events of an object are not read again.
EVENTS_AGE = 5.0
#: Remembered objects; beyond it all are forgotten.
MAX_REMEMBERED = 1000


class FailureFinder:
    """Finds the failure of an object's pods."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._events: dict[str, tuple[float, KubeEvent | None]] = {}

    async def of_pods(self, pods: Iterable[Pod]) -> Failure | None:
        """Return the worst failure of these pods."""
        failing = [pod for pod in pods if not pod.ready]
        if not failing:
            return None
        unexplained = [pod for pod in failing if is_unexplained(pod)][:MAX_LOOKUPS]
        events = {pod.metadata.uid: await self._last_event(pod.key, pod.metadata.uid) for pod in unexplained}
        nodes = {
            node.metadata.name: node for pod in failing if (node := self.context.nodes.get(Key("", pod.spec.node_name)))
        }
        reported = {uid: event for uid, event in events.items() if event is not None}
        return find_failure(failing, nodes, reported, self.context.clock.now())

    async def of_workload(self, resource: Resource[Any], key: Key, pods: Sequence[Pod]) -> Failure | None:
        """Return why a StatefulSet or Deployment lacks pods, or the worst failure of its pods."""
        live = self.context.children.find(resource, key)
        if live is not None and (refusal := refused_creation(live.status)):
            return creation_failure(key.name, refusal)
        if live is not None and live.status.replicas < (live.spec or {}).get("replicas", 1):
            event = await self._last_event(key, live.metadata.uid)
            if event is not None and is_creation_failure(event):
                return creation_failure(key.name, event.message)
        return await self.of_pods(pods)

    async def _last_event(self, key: Key, uid: str) -> KubeEvent | None:
        now = self.context.clock.monotonic()
        read, event = self._events.get(uid, (-EVENTS_AGE, None))
        if now - read < EVENTS_AGE:
            return event
        if len(self._events) >= MAX_REMEMBERED:
            self._events.clear()
        try:
            events = await self.context.client.list(
                EVENTS.viewed_as(KubeEvent), namespace=key.namespace, fields=f"involvedObject.uid={uid}"
            )
        except KubeError:  # without the permission, or now: conditions lack the sentence of the event
            events = []
        event = max(events, key=lambda item: item.time, default=None)
        self._events[uid] = (now, event)
        return event
