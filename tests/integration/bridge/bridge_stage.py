# SPDX-License-Identifier: Apache-2.0
"""A bridge between a real API server without kubelets and a real Slurm; the test writes what kubelets would write."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.support.request_counts import count_writes
from tests.support.waiting import eventually, quiescent

from slinky.bridge import names
from slinky.bridge.app import Bridge, assemble
from slinky.bridge.config import BridgeSettings, Policy, PolicyRule
from slinky.bridge.views import BATCH_JOBS, OUR_PODS, WorkloadPod
from slinky.kube import EVENTS, NAMESPACES, NODES, SERVICE_ACCOUNTS, Key, KubeClient, Node, NotFound, Unstructured
from slinky.kube.conditions import find_condition
from slinky.slurm import Busy, Job, NodeUpdate, SlurmError
from slinky.slurm import SlurmClient as Slurm

GANG = {names.OPTION + "gang": "true"}
#: Lets several jobs share a node.
SHARED = {names.OPTION + "exclusive": "false"}


#: Tests create pods of one user and in two reservations, of which one does not exist.
POLICY = Policy(
    rules=(
        PolicyRule(
            "tests",
            allow={
                "user-id": ("alice",),
                "group-id": ("alice",),
                "priority": ("0",),
                "reservation": ("course", "none"),
            },
        ),
    )
)


class BridgeStage:
    """A bridge with its own namespace, scheduler name and nodes."""

    def __init__(self, client: KubeClient, slurm: Slurm, namespace: str, **settings: Any) -> None:
        self.client, self.slurm, self.namespace = client, slurm, namespace
        self.name = namespace.replace("_", "-")
        self.configure(**settings)
        self.bridge: Bridge | None = None
        self._task: asyncio.Task[None] | None = None
        self.nodes: list[str] = []

    def configure(self, **settings: Any) -> None:
        """Set the settings with which the bridge will start."""
        defaults = {
            "scheduler_name": f"sched-{self.name}", "partition": "ext", "leader_elect": False, "policy": POLICY,
        }  # fmt: skip
        self.settings = BridgeSettings(**{**defaults, **settings})

    # --- the bridge

    async def start(self) -> Bridge:
        """Start the bridge and wait until it has searched Slurm for its jobs."""
        self.bridge = await assemble(self.settings, self.client, self.slurm)
        self._task = asyncio.create_task(self.bridge.run())
        await eventually(self.bridge.registry.searched.is_set, "the bridge searched its jobs")
        return self.bridge

    async def crash(self) -> None:
        """End the bridge at once."""
        if self._task is not None:
            await cancel(self._task)
            self._task = None

    async def settle(self) -> None:
        """Wait until the bridge has read Slurm's jobs and hosts anew and writes nothing more."""
        assert self.bridge is not None
        await self.bridge.mirror.refresh(deadline=60)
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until the bridge writes nothing more."""
        await quiescent(count_writes, "writes of the bridge")

    # --- nodes

    async def add_node(
        self,
        number: int = 1,
        *,
        host: bool = True,
        labels: Mapping[str, str] | None = None,
        taints: list[dict[str, str]] | None = None,
        amounts: Mapping[str, str] | None = None,
        topology: str = "default:leaf1",
        partitions: str = "ext",
    ) -> str:
        """Create a ready node; with `host`, wait until the bridge has registered it in Slurm."""
        name = f"{self.name}-{number}"
        metadata = {
            "labels": {names.EXTERNAL_LABEL: "", "kubernetes.io/hostname": name, **(labels or {})},
            "annotations": {names.PARTITIONS_ANNOTATION: partitions, names.TOPOLOGY_ANNOTATION: topology},
        }
        manifest = NODES.manifest(Key("", name), metadata=metadata, spec={"taints": taints or []})
        await self.client.create(NODES, manifest)
        self.nodes.append(name)
        await self.report_node(name, amounts=amounts)
        if host:
            await eventually(lambda: self._is_registered(name), f"host {name}")
        return name

    async def add_hybrid_node(self, number: int, host: str, *, labels: Mapping[str, str] | None = None) -> str:
        """Create a ready node whose host in Slurm has a slurmd and another name."""
        name = f"{self.name}-{number}"
        metadata = {"labels": {names.HOST_LABEL: host, **(labels or {})}}
        await self.client.create(NODES, NODES.manifest(Key("", name), metadata=metadata))
        self.nodes.append(name)
        await self.report_node(name, amounts={"cpu": "2", "memory": "1000Mi"})
        return name

    async def _is_registered(self, name: str) -> bool:
        return (await self.slurm.node(name)).comment.startswith("slurm-bridge ")

    async def report_node(self, name: str, *, ready: bool = True, amounts: Mapping[str, str] | None = None) -> None:
        """Write the node status that a kubelet would write."""
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
        await self._remove_admission_taint(name)

    async def _remove_admission_taint(self, name: str) -> None:
        """Remove the taint that admission adds to new nodes: there is no controller here that would."""
        taints = (await self.client.get(NODES, Key("", name))).spec.taints
        kept = [taint for taint in taints if not taint.key.startswith("node.kubernetes.io/")]
        if len(kept) != len(taints):
            plain = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in kept]
            await self.client.patch(NODES, Key("", name), {"spec": {"taints": plain}})

    async def move_node(self, name: str, topology: str) -> None:
        """Change the place of a node in Slurm's topology, and wait until Slurm has it."""
        await self.client.patch(
            NODES, Key("", name), {"metadata": {"annotations": {names.TOPOLOGY_ANNOTATION: topology}}}
        )

        async def moved() -> bool:
            return (await self.slurm.node(name)).topology == topology

        await eventually(moved, f"host {name} at {topology}")

    async def get_node(self, name: str) -> Node:
        return await self.client.get(NODES, Key("", name))

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        await self.client.patch(NODES, Key("", node), {"spec": {"unschedulable": unschedulable}})

    # --- pods

    def pod_manifest(self, name: str, **fields: Any) -> dict[str, Any]:
        """A pod of this scheduler; `fields` are of its container's resources, its metadata or its spec."""
        resources = {side: fields.pop(side, {}) for side in ("requests", "limits")}
        container = {"name": "c", "image": "x", "resources": resources}
        metadata = {key: fields.pop(key) for key in ("labels", "annotations", "ownerReferences") if key in fields}
        spec = {"schedulerName": self.settings.scheduler_name, "containers": [container], **fields}
        return OUR_PODS.manifest(Key(self.namespace, name), metadata=metadata, spec=spec)

    async def create_pod(self, name: str = "p", **fields: Any) -> WorkloadPod:
        return await self.client.create(OUR_PODS, self.pod_manifest(name, **fields))

    async def run_pod(self, name: str = "p", **fields: Any) -> None:
        """Create a pod and let it run on its node."""
        await self.create_pod(name, **fields)
        await self.wait_bound(name)
        await self.report_phase(name, "Running")

    async def get_pod(self, name: str = "p") -> WorkloadPod:
        return await self.client.get(OUR_PODS, Key(self.namespace, name))

    async def find_pod(self, name: str = "p") -> WorkloadPod | None:
        return await self.client.find(OUR_PODS, Key(self.namespace, name))

    async def patch_pod(self, name: str, patch: dict[str, Any]) -> None:
        await self.client.patch(OUR_PODS, Key(self.namespace, name), patch)

    async def wait_bound(self, name: str = "p") -> WorkloadPod:
        """Wait until the pod has a node."""

        async def bound() -> WorkloadPod:
            pod = await self.get_pod(name)
            assert pod.spec.node_name, find_condition(pod.status.conditions, names.SCHEDULED)
            return pod

        return await eventually(bound, f"a node for {name}")

    async def wait_reason(self, name: str, reason: str) -> str:
        """Wait until the pod's condition has this reason; returns its message."""

        async def message() -> str:
            condition = find_condition((await self.get_pod(name)).status.conditions, names.SCHEDULED)
            assert condition is not None
            assert condition.reason == reason, condition
            return condition.message

        return await eventually(message, f"reason {reason} on {name}")

    async def wait_evicted(self, name: str, reason: str, *, final: bool = False) -> None:
        """Wait until a pod is deleted for this reason; with `final`, it says that its owner should not retry."""

        async def evicted() -> bool:
            pod = await self.get_pod(name)
            reasons = {
                condition.type: condition.reason for condition in pod.status.conditions if condition.status == "True"
            }
            assert reasons.get(names.ENDED) == (reason if final else None)
            return pod.metadata.deleting and reasons.get("DisruptionTarget") == reason

        await eventually(evicted, f"eviction of {name} because of {reason}")

    async def wait_released(self, name: str = "p") -> None:
        """Wait until the bridge has removed its finalizer from the pod."""

        async def released() -> bool:
            pod = await self.find_pod(name)
            return pod is None or names.FINALIZER not in pod.metadata.finalizers

        await eventually(released, f"no finalizer on {name}")

    async def wait_gone(self, name: str) -> None:
        """Wait until a pod's object is gone."""

        async def absent() -> bool:
            return await self.find_pod(name) is None

        await eventually(absent, f"the end of {name}")

    async def report_phase(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """Write the pod status that a kubelet would write."""
        state = {"terminated": {"exitCode": exit_code}} if exit_code is not None else {"running": {}}
        containers = [{"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}]
        status = {"phase": phase, "containerStatuses": containers}
        await self.client.patch(OUR_PODS, Key(self.namespace, name), {"status": status}, subresource="status")

    async def report_stopped(self, name: str) -> None:
        """Do what a kubelet does at the end of a deletion: write the final status, then remove the object."""
        await self.report_phase(name, "Failed", 137)
        with contextlib.suppress(NotFound):
            await self.client.delete(OUR_PODS, Key(self.namespace, name), grace=0)

    async def delete_pod(self, name: str, **options: Any) -> None:
        await self.client.delete(OUR_PODS, Key(self.namespace, name), **options)

    async def event_reasons(self, name: str) -> set[str]:
        """The reasons of a pod's events."""
        view, field = EVENTS.viewed_as(Event), f"involvedObject.name={name}"
        return {event.reason for event in await self.client.list(view, namespace=self.namespace, fields=field)}

    async def wait_event(self, name: str, reason: str) -> None:
        """Wait until an object of the namespace, or a node, has an event with this reason."""
        field = f"involvedObject.name={name},reason={reason}"
        await eventually(lambda: self.client.list(EVENTS, fields=field), f"event {reason} on {name}")

    # --- gangs

    async def create_batch_job(
        self, size: int, name: str = "j", *, options: Mapping[str, str] | None = None, watched: bool = True
    ) -> dict[str, str]:
        """A batch job that is a gang; returns the label of its pods.

        Waits until the bridge's watch has it, unless `watched` is false: a pod that arrives before its batch job may
        get a job of its own.
        """
        template = {"spec": {**self.pod_manifest("x")["spec"], "restartPolicy": "Never"}}
        spec = {"parallelism": size, "completions": size, "template": template}
        key = Key(self.namespace, name)
        metadata = {"annotations": {**GANG, **(options or {})}}
        await self.client.create(BATCH_JOBS, BATCH_JOBS.manifest(key, metadata=metadata, spec=spec))
        if watched:
            await self.wait_watched(key)
        return {names.JOB_NAME: name}

    async def wait_watched(self, key: Key, *, absent: bool = False) -> None:
        """Wait until the bridge's watch has a batch job, or has it no more."""
        bridge = self.bridge
        assert bridge is not None
        await eventually(lambda: (key in bridge.cluster.groups["Job"]) is not absent, f"the bridge's watch of {key}")

    async def run_gang_of_two(self) -> Job:
        """Run a gang of two pods, `a` and `b`, on two nodes; returns its job."""
        await self.add_node(2)
        label = await self.create_batch_job(2)
        for name in ("a", "b"):
            await self.create_pod(name, labels=label)
        for name in ("a", "b"):
            await self.wait_bound(name)
            await self.report_phase(name, "Running")
        return await self.wait_job("a")

    # --- jobs

    async def wait_job(self, pod: str = "p") -> Job:
        """Wait until the pod has a job; returns the job."""

        async def label() -> str:
            return (await self.get_pod(pod)).metadata.labels.get(names.JOB_LABEL, "")

        return await self.slurm.job(await eventually(label, f"a job for {pod}"))

    async def wait_state(self, job: Job, *states: str) -> Job:
        """Wait until a job is in one of these states."""

        async def in_state() -> Job | None:
            current = await self.slurm.job(job.sluid)
            return current if current.state.base in states else None

        current = await eventually(in_state, f"job {job.job_id} to be {' or '.join(states)}")
        assert current is not None
        return current

    async def wait_scheduling_cycles(self, count: int = 3) -> None:
        """Wait until slurmctld has considered every pending job so many times; it does so only after a change."""
        first = (await self.slurm.diag()).bf_cycle_counter
        listing = await self.slurm.nodes()
        assert listing
        host = listing.items[0].name

        async def passed() -> bool:
            await self.slurm.update_node(host, NodeUpdate(extra=f"changed {time.monotonic()}"))
            return (await self.slurm.diag()).bf_cycle_counter >= first + count

        await eventually(passed, f"{count} scheduling cycles")

    async def jobs(self) -> list[Job]:
        """The live jobs of this bridge."""
        return await self._jobs(f'"bridge":"{self.settings.bridge_name}"')

    async def _jobs(self, text: str) -> list[Job]:
        listing = await self.slurm.jobs()
        return [job for job in (listing.items if listing else ()) if text in job.admin_comment and job.state.live]

    async def start_waiting_job_while_down(self, running: str, waiting: str) -> Job:
        """While the bridge is down, the job of `running` ends, so that the job of `waiting` gets its node."""
        await self.create_pod(waiting)
        await self.wait_reason(waiting, "Resources")
        job = await self.wait_job(waiting)
        await self.crash()
        await self.slurm.cancel((await self.wait_job(running)).job_id)
        return await self.wait_state(job, "RUNNING")

    # --- the end

    async def clean_up(self) -> None:
        """Remove everything that the stage has created, on both sides."""
        await self.crash()
        await eventually(self._free_hosts, f"free hosts of {self.namespace}")
        for name in self.nodes:
            with contextlib.suppress(NotFound):
                await self.client.delete(NODES, Key("", name))
        for pod in await self.client.list(OUR_PODS, namespace=self.namespace):
            with contextlib.suppress(NotFound):
                await self.client.patch(OUR_PODS, pod.key, {"metadata": {"finalizers": None}})
                await self.client.delete(OUR_PODS, pod.key, grace=0)

    async def _free_hosts(self) -> bool:
        """Cancel every job and delete every host; false if a job has just started on one of the hosts."""
        for job in await self._jobs(f'"{self.namespace}/'):  # of any bridge
            with contextlib.suppress(SlurmError):  # components of a heterogeneous job end together
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


class Event(Unstructured, frozen=True):
    """An event."""

    reason: str = ""


async def create_namespace(client: KubeClient, name: str = "") -> str:
    """A namespace in which pods can be created."""
    name = name or f"br-{secrets.token_hex(3)}"
    await client.create(NAMESPACES, NAMESPACES.manifest(Key("", name)))
    # The API server refuses pods without this account, and there is no controller here that creates it.
    await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(name, "default")))
    return name


@contextlib.asynccontextmanager
async def bridge_stage(client: KubeClient, slurm: Slurm, **settings: Any) -> AsyncIterator[BridgeStage]:
    """A stage whose bridge is not started yet."""
    stage = BridgeStage(client, slurm, await create_namespace(client), **settings)
    try:
        yield stage
    finally:
        await stage.clean_up()


async def cancel(task: asyncio.Task[None]) -> None:
    """End a task as a killed process ends."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
        await task
