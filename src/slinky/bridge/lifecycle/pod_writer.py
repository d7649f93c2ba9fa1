# SPDX-License-Identifier: Apache-2.0
"""All writes to pods: job label, binding, conditions, eviction, finalizer.

Every write names the uid of the pod, so a new pod with the same name is never changed. A pod that no longer exists, or
that is already as it should be, is no error.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from slinky.bridge import metrics, names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.status import conditions, job_ends, reasons
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import OUR_PODS, RESOURCE_CLAIMS, WorkloadPod
from slinky.bridge.views.pods import Toleration
from slinky.bridge.workload import pod_state
from slinky.kube import Cache, Conflict, EventRecorder, Key, KubeClient, NotFound
from slinky.kube.client import STRATEGIC
from slinky.kube.conditions import build_condition, condition_manifest, find_condition

#: Covers the taint of every bridge, whatever its effect.
MANAGED_TOLERATION = Toleration(names.MANAGED_TAINT, "Exists")

#: Concurrent writes: the API server takes some hundred a second, and other clients need a share of that. All of them
#: begin in one turn of the event loop, which more of them would stall.
CONCURRENCY = 32
#: This many bindings are remembered: more than can be in flight until the watch reports them.
MAX_RECENT_BINDINGS = 4096


async def for_each_pod(pods: Iterable[WorkloadPod], work: Callable[[WorkloadPod], Awaitable[None]]) -> None:
    """Run `work` for many pods concurrently; raises the first failure after all pods have been tried."""
    group = list(pods)
    remaining = iter(group)
    failures: list[Exception] = []

    async def worker() -> None:
        for pod in remaining:
            try:
                await work(pod)
            except Exception as error:
                failures.append(error)

    # A task for each worker, not for each pod: measured, a task per pod cost a tenth of the time of a large gang.
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(CONCURRENCY, len(group))):
            tasks.create_task(worker())
    if failures:
        raise failures[0]


class PodWriter:
    """Writes to the pods of one scheduler."""

    def __init__(
        self, client: KubeClient, pods: Cache[WorkloadPod], recorder: EventRecorder, settings: BridgeSettings
    ) -> None:
        self._client, self._pods, self._recorder, self._settings = client, pods, recorder, settings
        self._bound: dict[str, str] = {}  # node by pod uid, of recent bindings: a binding is final and sent only once

    async def add_finalizer(self, pod: WorkloadPod) -> None:
        """Add the finalizer and the toleration; the job label is written with the binding."""
        if not pod_state.has_finalizer(pod):
            await self.label(pod)

    async def label(self, pod: WorkloadPod, job: str = "") -> None:
        """Write the job label, the finalizer, and the toleration of the bridge's taint, in one patch."""
        labels = {"labels": {names.JOB_LABEL: job}} if job else {}
        metadata: dict[str, Any] = {"finalizers": [names.FINALIZER], **labels}
        tolerations = build_tolerations(pod)
        spec = {"spec": {"tolerations": tolerations}} if tolerations else {}
        await self._patch(pod, {"metadata": metadata, **spec})

    async def replace_label(self, pod: WorkloadPod, job: str, sluid: str) -> None:
        """Write another job to a running pod."""
        annotations = {names.SLUID_ANNOTATION: sluid or None}
        metadata = {"labels": {names.JOB_LABEL: job}, "annotations": annotations, "finalizers": [names.FINALIZER]}
        await self._patch(pod, {"metadata": metadata})

    async def remove_label(self, pod: WorkloadPod) -> None:
        """Remove the job from a pod that has no node."""
        metadata = {
            "labels": {names.JOB_LABEL: None},
            "annotations": {names.NODE_ANNOTATION: None, names.SLUID_ANNOTATION: None},
        }
        await self._patch(pod, {"metadata": metadata})

    async def bind(self, pod: WorkloadPod, node: str, job: str, sluid: str) -> None:
        """Bind a pod to its node; the binding also writes node, job and SLUID to the pod."""
        if self._bound.get(pod.metadata.uid) == node:
            return
        annotations = {names.NODE_ANNOTATION: node, **({names.SLUID_ANNOTATION: sluid} if sluid else {})}
        labels = {names.JOB_LABEL: job}
        try:
            await self._client.bind(pod.key, node, uid=pod.metadata.uid, annotations=annotations, labels=labels)
        except NotFound:
            return
        except Conflict:
            current = await self._client.find(OUR_PODS, pod.key)
            if current is None or current.metadata.uid != pod.metadata.uid or current.spec.node_name == node:
                return
            raise
        metrics.BINDS.inc()
        self._bound[pod.metadata.uid] = node
        if len(self._bound) > MAX_RECENT_BINDINGS:
            del self._bound[next(iter(self._bound))]

    async def write_conditions(self, pods: Iterable[WorkloadPod], text: ConditionText) -> None:
        """Write the same condition to many pods."""
        await for_each_pod(pods, lambda pod: self.write_condition(pod, text))

    async def write_condition(self, pod: WorkloadPod, text: ConditionText) -> None:
        """Write the condition of the pod if it changed, with an event if the reason changed."""
        if not conditions.differs(pod, text, self._client.clock.now()):
            return
        old = find_condition(pod.status.conditions, names.SCHEDULED)
        manifests = [self._condition(pod, names.SCHEDULED, text.status, text)]
        if not pod_state.is_bound(pod) and not text.status:
            manifests.append(self._condition(pod, "PodScheduled", False, text))
        await self._patch_status(pod, manifests)
        if old is None or old.reason != text.reason:
            reason = reasons.SCHEDULED_EVENT if text.status else text.reason
            self._recorder.record(OUR_PODS.reference(pod), reason, text.message, warning=text.warning)

    def report_notes(self, pod: WorkloadPod, notes: Iterable[str]) -> None:
        """Record an event for each note about the job options of a workload."""
        for note in notes:
            text = Reason.OPTION_NOTE.text(note=note)
            self._recorder.record(OUR_PODS.reference(pod), text.reason, text.message, warning=text.warning)

    async def evict(self, pod: WorkloadPod, end: ConditionText) -> None:
        """Delete a pod whose job ended."""
        self._recorder.record(OUR_PODS.reference(pod), end.reason, end.message, warning=True)
        try:
            await self._client.delete(OUR_PODS, pod.key, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        metrics.EVICTIONS.labels(end.reason).inc()

    async def write_end_conditions(self, pod: WorkloadPod, end: ConditionText) -> None:
        """Write the end of the job to a pod that is being deleted because of it.

        Owners know the condition `DisruptionTarget`. A podFailurePolicy can match the condition of a final end, so that
        the owner does not replace the pod.
        """
        types = [(names.SCHEDULED, False), ("DisruptionTarget", True)]
        if end.reason in job_ends.FINAL:
            types.append((names.ENDED, True))
        await self._patch_status(pod, [self._condition(pod, kind, status, end) for kind, status in types])

    async def remove_finalizer(self, pod: WorkloadPod, event: ConditionText | None = None) -> None:
        """Remove the finalizer, and the claim that the bridge created for the pod."""
        if event is not None:
            self._recorder.record(OUR_PODS.reference(pod), event.reason, event.message, warning=event.warning)
        await self._delete_claim(pod)
        await self._patch(pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}})

    async def _delete_claim(self, pod: WorkloadPod) -> None:
        """Delete the claim in the status of a pod, if the pod owns it: a kubelet can write any name there."""
        status = pod.status.extended_resource_claim_status
        if status is None or not status.resource_claim_name:
            return
        claim = await self._client.find(RESOURCE_CLAIMS, Key(pod.metadata.namespace, status.resource_claim_name))
        if claim is not None and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(RESOURCE_CLAIMS, claim.key, uid=claim.metadata.uid)

    def _condition(self, pod: WorkloadPod, kind: str, status: bool | None, text: ConditionText) -> dict[str, Any]:
        now = self._client.clock.now()
        return condition_manifest(
            build_condition(pod.status.conditions, kind, status, text.reason, text.message, now=now)
        )

    async def _patch(self, pod: WorkloadPod, patch: Mapping[str, Any], *, subresource: str = "") -> None:
        metadata = {**patch.get("metadata", {}), "uid": pod.metadata.uid}
        body = {**patch, "metadata": metadata}
        try:
            patched = await self._client.patch(OUR_PODS, pod.key, body, subresource=subresource, kind=STRATEGIC)
        except NotFound:
            return
        except Conflict:
            current = await self._client.find(OUR_PODS, pod.key)
            if current and current.metadata.uid == pod.metadata.uid:
                raise
            return
        self._pods.record_write(patched)

    async def _patch_status(self, pod: WorkloadPod, manifests: list[dict[str, Any]]) -> None:
        await self._patch(pod, {"status": {"conditions": manifests}}, subresource="status")


def build_tolerations(pod: WorkloadPod) -> list[dict[str, Any]]:
    """The pod's tolerations with the one for the taint of bridges; empty if the pod has it already.

    The taint of a node that several bridges use is that of one of them, and its effect can be configured.
    """
    if MANAGED_TOLERATION in pod.spec.tolerations:
        return []
    return [msgspec.to_builtins(toleration) for toleration in (*pod.spec.tolerations, MANAGED_TOLERATION)]
