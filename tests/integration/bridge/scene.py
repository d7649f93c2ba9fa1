# SPDX-License-Identifier: Apache-2.0
"""A bridge between a real API server without kubelets and a real Slurm, with hands for what kubelets would do."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from slinky.bridge import names
from slinky.bridge.app import Bridge, assemble
from slinky.bridge.config import BridgeSettings
from slinky.bridge.state.views import OUR_PODS, WorkloadPod
from slinky.kube import (
    EVENTS,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    Key,
    KubeClient,
    Node,
    NotFound,
    Resource,
    Unstructured,
)
from slinky.kube.conditions import find_condition
from slinky.slurm import Busy, Job, SlurmError
from slinky.slurm import SlurmClient as Slurm

WHOLE_PODS = OUR_PODS.viewed_as(Unstructured)
PATIENCE = 20.0


async def eventually(check: Callable[[], Awaitable[Any]], what: str, seconds: float = PATIENCE) -> Any:
    """The first true answer of `check`; fails with its last words when that takes too long."""
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            last = await check()
        except (AssertionError, NotFound, SlurmError) as error:
            last = error
        else:
            if last:
                return last
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds:.0f} s; last: {last!r}")


class Scene:
    """One namespace, one scheduler name, some nodes of its own."""

    def __init__(self, client: KubeClient, slurm: Slurm, namespace: str, **settings: Any) -> None:
        self.client, self.slurm, self.namespace = client, slurm, namespace
        self.name = namespace.replace("_", "-")
        self.configure(**settings)
        self.bridge: Bridge | None = None
        self._task: asyncio.Task[None] | None = None
        self.nodes: list[str] = []

    def configure(self, **settings: Any) -> None:
        """Set what the bridge will be told."""
        given = {"scheduler_name": f"sched-{self.name}", "partition": "ext", "leader_elect": False, **settings}
        self.settings = BridgeSettings(**given)

    # --- the bridge

    async def start(self) -> Bridge:
        """Start the bridge and wait until it has looked around."""
        self.bridge = await assemble(self.settings, self.client, self.slurm)
        self._task = asyncio.create_task(self.bridge.run())
        async with asyncio.timeout(30):
            await self.bridge.registry.searched.wait()
        return self.bridge

    async def crash(self) -> None:
        """End the bridge without a word."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await self._task
            self._task = None

    # --- nodes

    async def node(self, number: int = 1, *, host: bool = True, **more: Any) -> str:
        """A ready node that should be external in Slurm; waits until it is."""
        name = f"{self.name}-{number}"
        labels = {names.EXTERNAL_LABEL: "", "kubernetes.io/hostname": name, **more.get("labels", {})}
        notes = {names.PARTITIONS_ANNOTATION: "ext", names.TOPOLOGY_ANNOTATION: "default:leaf1"}
        spec = {"taints": more.get("taints", [])}
        meta = {"labels": labels, "annotations": notes}
        await self.client.create(NODES, NODES.manifest(Key("", name), metadata=meta, spec=spec))
        self.nodes.append(name)
        await self.ready(name, **more)
        if host:
            await eventually(lambda: self._idle(name), f"host {name}", more.get("seconds", PATIENCE))
        return name

    async def _idle(self, name: str) -> bool:
        found = await self.slurm.node(name)
        return found.comment.startswith("slurm-bridge ")

    async def ready(self, name: str, *, ready: bool = True, amounts: Mapping[str, str] | None = None, **_: Any) -> None:
        """Say what its kubelet would say."""
        size = {"cpu": "4", "memory": "8Gi", "pods": "110", **(amounts or {})}
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "reason": "x", "message": "x"}
        status = {
            "capacity": size,
            "allocatable": size,
            "conditions": [condition],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        }
        await self.client.patch(
            NODES,
            Key("", name),
            {"status": status},
            subresource="status",
            kind="application/strategic-merge-patch+json",
        )
        # Nobody else takes the taint off that admission puts on every new node.
        found = await self.client.get(NODES, Key("", name))
        kept = [taint for taint in found.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
        if len(kept) != len(found.spec.taints):
            plain = [{"key": t.key, "value": t.value, "effect": t.effect} for t in kept]
            await self.client.patch(NODES, Key("", name), {"spec": {"taints": plain}})

    async def get_node(self, name: str) -> Node:
        """A node as it is."""
        return await self.client.get(NODES, Key("", name))

    # --- pods

    def manifest(self, name: str, **more: Any) -> dict[str, Any]:
        """A pod of this scheduler."""
        amounts = {side: more.pop(side, {}) for side in ("requests", "limits")}
        container = {"name": "c", "image": "x", "resources": amounts}
        meta = {key: more.pop(key) for key in ("labels", "annotations", "ownerReferences") if key in more}
        spec = {"schedulerName": self.settings.scheduler_name, "containers": [container], **more}
        return OUR_PODS.manifest(Key(self.namespace, name), metadata=meta, spec=spec)

    async def pod(self, name: str = "p", **more: Any) -> WorkloadPod:
        """Create a pod."""
        return await self.client.create(OUR_PODS, self.manifest(name, **more))

    async def get(self, name: str = "p") -> WorkloadPod:
        """A pod as it is."""
        return await self.client.get(OUR_PODS, Key(self.namespace, name))

    async def find(self, name: str = "p") -> WorkloadPod | None:
        """A pod, if it is there."""
        return await self.client.find(OUR_PODS, Key(self.namespace, name))

    async def bound(self, name: str = "p", seconds: float = PATIENCE) -> WorkloadPod:
        """Wait until the pod has a node."""

        async def has_node() -> WorkloadPod:
            found = await self.get(name)
            assert found.spec.node_name, find_condition(found.status.conditions, names.SCHEDULED)
            return found

        found: WorkloadPod = await eventually(has_node, f"a node for {name}", seconds)
        return found

    async def says(self, name: str, reason: str) -> str:
        """Wait until the pod's condition has this reason; its message."""

        async def told() -> str:
            condition = find_condition((await self.get(name)).status.conditions, names.SCHEDULED)
            assert condition is not None
            assert condition.reason == reason, condition
            return condition.message

        message: str = await eventually(told, f"{name} to say {reason}")
        return message

    async def phase(self, name: str, phase: str, code: int | None = None) -> None:
        """Say of a pod what its kubelet would."""
        ended = {"terminated": {"exitCode": code}} if code is not None else {"running": {}}
        containers = [{"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": ended}]
        status = {"phase": phase, "containerStatuses": containers}
        await self.client.patch(OUR_PODS, Key(self.namespace, name), {"status": status}, subresource="status")

    async def stopped(self, name: str) -> None:
        """Do what a kubelet does at the end of a deletion: tell the end, then remove the object."""
        await self.phase(name, "Failed", 137)
        with contextlib.suppress(NotFound):
            await self.client.delete(OUR_PODS, Key(self.namespace, name), grace=0)

    async def delete(self, name: str, **options: Any) -> None:
        """Ask for a pod to go."""
        await self.client.delete(OUR_PODS, Key(self.namespace, name), **options)

    async def gone(self, name: str) -> None:
        """Wait until a pod's object is gone."""

        async def absent() -> bool:
            return await self.find(name) is None

        await eventually(absent, f"the end of {name}")

    async def events(self, name: str) -> set[str]:
        """The reasons of a pod's events."""
        listed = await self.client.list(
            EVENTS.viewed_as(Event), namespace=self.namespace, fields=f"involvedObject.name={name}"
        )
        return {found.reason for found in listed}

    # --- jobs

    async def job_of(self, name: str = "p") -> Job:
        """Wait until the pod has a job; the job."""

        async def labelled() -> str:
            return (await self.get(name)).metadata.labels.get(names.JOB_LABEL, "")

        job: str = await eventually(labelled, f"a job for {name}")
        return await self.slurm.job(job)

    async def state(self, job: Job, *states: str) -> Job:
        """Wait until a job is in one of these states."""

        async def there() -> Job | None:
            found = await self.slurm.job(job.sluid)
            return found if found.state.base in states else None

        found: Job = await eventually(there, f"job {job.job_id} to be {' or '.join(states)}")
        return found

    async def jobs(self, *, live: bool = True) -> list[Job]:
        """Every job of this scene's bridge."""
        return await self._jobs(f'"bridge":"{self.settings.bridge_name}"', live=live)

    async def _jobs(self, mark: str, *, live: bool = True) -> list[Job]:
        listing = await self.slurm.jobs()
        found = listing.items if listing else ()
        return [job for job in found if mark in job.admin_comment and job.state.live is live]

    async def _cleared(self) -> bool:
        """End every job and take every host from Slurm, unless one is busy: a job may have come to it just now."""
        for job in await self._jobs(f'"{self.namespace}/'):  # whichever bridge it is of
            with contextlib.suppress(SlurmError):  # a component ends with the first of its job
                await self.slurm.cancel(job.job_id)
        busy = False
        for name in self.nodes:
            try:
                await self.slurm.delete_nodes(name)
            except Busy:
                busy = True
            except SlurmError:  # it is gone already
                continue
        return not busy

    async def overtaken(self, first: str, second: str) -> Job:
        """While the bridge is away, the job of `first` ends, and that of `second`, which waits, gets its node."""
        await self.pod(second)
        await self.says(second, "Resources")
        job = await self.job_of(second)
        await self.crash()
        await self.slurm.cancel((await self.job_of(first)).job_id)
        return await self.state(job, "RUNNING")

    async def clear(self) -> None:
        """Leave nothing behind."""
        await self.crash()
        await eventually(self._cleared, f"hosts of {self.namespace} to be free")
        for name in self.nodes:
            with contextlib.suppress(NotFound):
                await self.client.delete(NODES, Key("", name))
        for pod in await self.client.list(OUR_PODS, namespace=self.namespace):
            with contextlib.suppress(NotFound):
                await self.client.patch(OUR_PODS, pod.key, {"metadata": {"finalizers": None}})
                await self.client.delete(OUR_PODS, pod.key, grace=0)


class Event(Unstructured, frozen=True):
    """An event."""

    reason: str = ""


@contextlib.asynccontextmanager
async def scene(client: KubeClient, slurm: Slurm, **settings: Any) -> AsyncIterator[Scene]:
    """A scene that leaves nothing behind."""
    namespace = f"br-{secrets.token_hex(3)}"
    await client.create(NAMESPACES, NAMESPACES.manifest(Key("", namespace)))
    # No controller gives namespaces their account here, and no pod comes without one.
    await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(namespace, "default")))
    made = Scene(client, slurm, namespace, **settings)
    try:
        yield made
    finally:
        await made.clear()


async def apply_crds(client: KubeClient, documents: Iterable[Mapping[str, Any]]) -> None:
    """Register kinds and wait until they are served."""
    crds: Resource[Unstructured] = Resource(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        Unstructured,
        namespaced=False,
    )
    for document in documents:
        await client.apply(crds, document, manager="tests")
