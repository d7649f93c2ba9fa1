# SPDX-License-Identifier: Apache-2.0
"""What is written to pods: their job, their node, what to say about them, and the end of our hold.

Every write names the uid, so that a new pod under an old name is never meant. A pod that is gone or already where
it should be is no error.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.state.views import OUR_PODS, RESOURCE_CLAIMS, WorkloadPod
from slinky.bridge.status import conditions as watch
from slinky.bridge.status import reasons
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload import pod_state
from slinky.kube import Cache, Conflict, EventRecorder, Key, KubeClient, NotFound
from slinky.kube.client import STRATEGIC
from slinky.kube.conditions import build_condition, condition_manifest, find_condition
from slinky.observe import Log, counter

log = Log("slinky.bridge.lifecycle.pod_writer")

BOUND = counter("slinky_bridge_binds_total", "Pods put on a node.")
EVICTED = counter("slinky_bridge_evictions_total", "Pods deleted because their job ended, by reason.", "reason")

#: Writes at once: the API server takes some hundred a second, and others want their share.
CONCURRENCY = 64
#: So many bindings are remembered until the watch has surely told of them.
RECENT = 4096


async def each(pods: Iterable[WorkloadPod], work: Callable[[WorkloadPod], Awaitable[None]]) -> None:
    """Do something for many pods at once; the first failure is raised when all have been tried."""
    left = list(pods)
    todo = iter(left)
    failures: list[Exception] = []

    async def hand() -> None:
        for pod in todo:
            try:
                await work(pod)
            except Exception as error:
                failures.append(error)

    # A task for each hand, not for each pod: for a large gang those were a tenth of all the work.
    await asyncio.gather(*(hand() for _ in range(min(CONCURRENCY, len(left)))))
    if failures:
        raise failures[0]


class PodWriter:
    """Writes to the pods of one scheduler."""

    def __init__(
        self, client: KubeClient, pods: Cache[WorkloadPod], recorder: EventRecorder, settings: BridgeSettings
    ) -> None:
        self._client, self._pods, self._recorder, self._settings = client, pods, recorder, settings
        self._bound: dict[str, str] = {}  # uid to node, of the latest: a binding is final, so none is sent twice

    async def hold(self, pod: WorkloadPod) -> None:
        """Give a pod our hold and the right to run on our nodes; its job comes with its node."""
        if not pod_state.has_finalizer(pod):
            await self.label(pod)

    async def label(self, pod: WorkloadPod, job: str = "") -> None:
        """Give a pod its job, our hold, and the right to run on our nodes; in one write."""
        meta: dict[str, Any] = {"finalizers": [names.FINALIZER], **({"labels": {names.JOB_LABEL: job}} if job else {})}
        tolerations = tolerating(pod, self._settings)
        await self._patch(pod, {"metadata": meta, **({"spec": {"tolerations": tolerations}} if tolerations else {})})

    async def relabel(self, pod: WorkloadPod, job: str, sluid: str) -> None:
        """Give a pod that runs another job than it had."""
        notes = {names.SLUID_ANNOTATION: sluid or None}
        meta = {"labels": {names.JOB_LABEL: job}, "annotations": notes, "finalizers": [names.FINALIZER]}
        await self._patch(pod, {"metadata": meta})

    async def unlabel(self, pod: WorkloadPod) -> None:
        """Take the job off a pod that has no node."""
        blank = {
            "labels": {names.JOB_LABEL: None},
            "annotations": {names.NODE_ANNOTATION: None, names.SLUID_ANNOTATION: None},
        }
        await self._patch(pod, {"metadata": blank})

    async def bind(self, pod: WorkloadPod, node: str, job: str, sluid: str) -> None:
        """Put a pod on its node, and note node and job on it."""
        if self._bound.get(pod.metadata.uid) == node:
            return
        notes = {names.NODE_ANNOTATION: node, **({names.SLUID_ANNOTATION: sluid} if sluid else {})}
        label = {names.JOB_LABEL: job}
        try:
            await self._client.bind(pod.key, node, uid=pod.metadata.uid, annotations=notes, labels=label)
        except NotFound:
            return
        except Conflict:
            now = await self._client.find(OUR_PODS, pod.key)
            if now is None or now.metadata.uid != pod.metadata.uid or now.spec.node_name == node:
                return
            raise
        BOUND.inc()
        self._bound[pod.metadata.uid] = node
        if len(self._bound) > RECENT:
            del self._bound[next(iter(self._bound))]

    async def tell(self, pods: Iterable[WorkloadPod], said: ConditionText, *, warning: bool = False) -> None:
        """Say the same about many pods."""
        await each(pods, lambda pod: self.say(pod, said, warning=warning))

    async def say(self, pod: WorkloadPod, said: ConditionText, *, warning: bool = False) -> None:
        """Set the pod's condition if that is news, with an event when the reason changed."""
        if not watch.news(pod, said, self._client.clock.now()):
            return
        old = find_condition(pod.status.conditions, names.SCHEDULED)
        conditions = [self._condition(pod, names.SCHEDULED, said.scheduled, said)]
        if not pod_state.is_bound(pod) and not said.scheduled:
            conditions.append(self._condition(pod, "PodScheduled", False, said))
        await self._patch_status(pod, conditions)
        if old is None or old.reason != said.reason:
            reason = "Scheduled" if said.scheduled else said.reason
            self._recorder.record(OUR_PODS.reference(pod), reason, said.message, warning=warning)

    async def evict(self, pod: WorkloadPod, said: ConditionText) -> None:
        """Delete a pod whose job ended."""
        self._recorder.record(OUR_PODS.reference(pod), said.reason, said.message, warning=True)
        try:
            await self._client.delete(OUR_PODS, pod.key, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        EVICTED.labels(said.reason).inc()

    async def explain(self, pod: WorkloadPod, said: ConditionText) -> None:
        """Put the end of its job on a pod that leaves for that; owners know the condition of a disruption, and can be
        told to give up by the one of an end for good.
        """
        kinds = [(names.SCHEDULED, False), ("DisruptionTarget", True)]
        if said.reason in reasons.FINAL:
            kinds.append((names.ENDED, True))
        await self._patch_status(pod, [self._condition(pod, kind, value, said) for kind, value in kinds])

    async def let_go(self, pod: WorkloadPod, warning: str = "") -> None:
        """Remove our hold and what we made for the pod."""
        if warning:
            self._recorder.record(OUR_PODS.reference(pod), "PodGivenUp", warning, warning=True)
        made = pod.status.extended_resource_claim_status
        if made and made.resource_claim_name:
            with contextlib.suppress(NotFound):
                await self._client.delete(RESOURCE_CLAIMS, Key(pod.metadata.namespace, made.resource_claim_name))
        await self._patch(pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}})

    def _condition(self, pod: WorkloadPod, kind: str, value: bool | None, said: ConditionText) -> dict[str, Any]:
        now, text = self._client.clock.now(), (said.reason, said.message)
        return condition_manifest(build_condition(pod.status.conditions, kind, value, *text, now=now))

    async def _patch(self, pod: WorkloadPod, patch: Mapping[str, Any], *, subresource: str = "") -> None:
        meta = {**patch.get("metadata", {}), "uid": pod.metadata.uid}
        body = {**patch, "metadata": meta}
        try:
            now = await self._client.patch(OUR_PODS, pod.key, body, subresource=subresource, kind=STRATEGIC)
        except NotFound:
            return
        except Conflict:
            if (found := await self._client.find(OUR_PODS, pod.key)) and found.metadata.uid == pod.metadata.uid:
                raise
            return
        self._pods.record_write(now)

    async def _patch_status(self, pod: WorkloadPod, conditions: list[dict[str, Any]]) -> None:
        await self._patch(pod, {"status": {"conditions": conditions}}, subresource="status")


def tolerating(pod: WorkloadPod, settings: BridgeSettings) -> list[dict[str, Any]]:
    """The pod's tolerations with ours; empty if it has that already."""
    effect = "NoExecute" if settings.taint == "None" else settings.taint
    ours = {"key": names.MANAGED_TAINT, "operator": "Equal", "value": settings.scheduler_name, "effect": effect}
    held = [msgspec.to_builtins(toleration) for toleration in pod.spec.tolerations]
    return [] if ours in held else [*held, ours]
