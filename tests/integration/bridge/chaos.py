# SPDX-License-Identifier: Apache-2.0
"""Parts of the randomized test: a simulation of kubelets and controllers, and a checker.

The checker shares no code with the bridge: it has its own watches and slurmrestd client, reads claims and jobs itself,
and checks the invariants at every event.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping
from typing import Any

from tests.integration.bridge.device_stage import DeviceStage

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, RESOURCE_CLAIMS, WorkloadPod
from slinky.kube import KubeError, Runtime, Unstructured
from slinky.kube.conditions import find_condition
from slinky.slurm import Job, SlurmError, expand

#: CPUs of every node.
CPUS = 16
NODE_SIZE = {"cpu": str(CPUS)}
ENDED = frozenset({"Succeeded", "Failed"})
#: Reasons of pods that wait without a job.
WAITING_WITHOUT_JOB = frozenset(
    {"GangIncomplete", "SlurmRefused", "InsufficientNodeResources", "ClaimPending", "SlurmJobCancelled"}
)
CLAIMS = RESOURCE_CLAIMS.viewed_as(Unstructured)


def device_names(claim: Unstructured) -> set[str]:
    """What is allocated to a claim: devices by name, CPUs of grouped devices by number."""
    allocation = ((claim.status or {}).get("allocation") or {}).get("devices", {})
    devices: set[str] = set()
    for result in allocation.get("results", ()):
        if "shareID" not in result:
            devices.add(f"{result['driver']}/{result['pool']}/{result['device']}")
            continue
        (config,) = [config for config in allocation["config"] if result["request"] in config["requests"]]
        for part in config["opaque"]["parameters"]["cpuConfig"]["cpuset"].split(","):
            first, _, last = part.partition("-")
            devices |= {f"{result['driver']}/{result['pool']}/{n}" for n in range(int(first), int(last or first) + 1)}
    return devices


def consumers(claim: Unstructured) -> dict[str, str]:
    """The pods for which a claim is reserved: uid to name."""
    return {user["uid"]: user["name"] for user in (claim.status or {}).get("reservedFor") or ()}


class InvariantChecker:
    """Checks that no device is allocated twice and that pods, jobs and claims agree."""

    def __init__(self, stage: DeviceStage) -> None:
        self.stage = stage
        self.runtime = Runtime(stage.client)
        self.pods = self.runtime.cache(OUR_PODS, namespace=stage.namespace)
        self.claims = self.runtime.cache(CLAIMS, namespace=stage.namespace)
        self.claims.listen(self._claim_changed)
        self.violations: list[str] = []
        self.cancelled: set[str] = set()  # SLUIDs of jobs that the test, not the bridge, has cancelled
        self.slurm_may_forget = False  # Slurm has lost changes, so jobs and pods need not agree at every moment
        self.checks = 0
        self.events = 0

    def _claim_changed(self, _old: Unstructured | None, new: Unstructured | None) -> None:
        self.events += 1
        if new is None:
            return
        mine = device_names(new)
        for other in self.claims:
            if other.metadata.uid != new.metadata.uid and (twice := mine & device_names(other)):
                self.violations.append(f"{sorted(twice)} are held by {new.key} and {other.key}")

    async def jobs(self) -> list[Job]:
        """Every job of this bridge, ended ones included."""
        listing = await self.stage.slurm.jobs()
        bridge = f'"bridge":"{self.stage.settings.bridge_name}"'
        return [job for job in (listing.items if listing else ()) if bridge in job.admin_comment]

    async def check(self) -> None:
        """Compare Slurm's jobs with the pods, unless Slurm may have forgotten some."""
        jobs = await self.jobs()
        self.checks += 1
        if self.slurm_may_forget:
            return
        live = [job for job in jobs if job.state.live]
        owner: dict[str, int] = {}
        for job in live:
            for pod in json.loads(job.admin_comment)["pods"]:
                if pod in owner:
                    self.violations.append(f"{pod} has two live jobs, {owner[pod]} and {job.job_id}")
                owner[pod] = job.job_id
        for job in jobs:
            if not job.state.live and job.sluid not in self.cancelled:
                await self._check_ended(str(job.job_id))
        for job in live:
            if job.state.running:
                await self._check_running(job)

    async def _check_ended(self, job: str) -> None:
        """A job that the bridge has ended must have no pod whose containers may run; pods are read after the job."""
        for known in [pod for pod in self.pods if pod.metadata.labels.get(names.JOB_LABEL) == job]:
            pod = await self.stage.find_pod(known.metadata.name)
            if pod is None or pod.metadata.uid != known.metadata.uid:
                continue
            running = pod.spec.node_name and pod.status.phase not in ENDED
            if running and pod.metadata.labels.get(names.JOB_LABEL) == job:
                self.violations.append(f"job {job} has ended and {pod.key} is {pod.status.phase}")

    async def _check_running(self, job: Job) -> None:
        """Pods of a job use only nodes and devices that Slurm granted to the job."""
        try:
            granted = {node.node: node for node in await self.stage.slurm.resources(job.job_id)}
        except SlurmError:
            return  # the job has just ended
        label = str(job.job_id)
        for pod in [pod for pod in self.pods if pod.metadata.labels.get(names.JOB_LABEL) == label]:
            if not pod.spec.node_name or pod.status.phase in ENDED:
                continue
            if pod.spec.node_name not in granted:
                self.violations.append(f"{pod.key} runs on {pod.spec.node_name}, which job {label} does not have")
                continue
            allowed = granted_devices(self.stage, granted[pod.spec.node_name])
            for claim in self.claims:
                if pod.metadata.uid in consumers(claim) and (more := device_names(claim) - allowed):
                    self.violations.append(f"{claim.key} of {pod.key} holds {sorted(more)} beyond job {label}")

    async def watch(self) -> None:
        """Check until cancelled, whenever both systems answer."""
        while True:
            with contextlib.suppress(SlurmError, KubeError):
                await self.check()
            await asyncio.sleep(0.1)

    async def agreement(self) -> bool:
        """Every job has a pod, every bound pod has its job on its node, and every other pod has a job or a reason."""
        live = {str(job.job_id): job for job in await self.jobs() if job.state.live}
        pods = await self.stage.client.list(OUR_PODS, namespace=self.stage.namespace)
        active = [pod for pod in pods if pod.status.phase not in ENDED]
        used = {pod.metadata.labels.get(names.JOB_LABEL, "") for pod in active}
        idle = [job.job_id for label, job in live.items() if label not in used]
        lost = [pod for pod in active if not pod.metadata.deleting and not _has_job(pod, live)]
        assert not idle, f"jobs without pods: {idle}"
        assert not lost, f"pods without jobs: {[_describe(pod, live) for pod in lost]}"
        return True

    def assert_no_violation(self) -> None:
        """Fail if an invariant was violated so far."""
        assert not self.violations, "\n".join(dict.fromkeys(self.violations))


def _has_job(pod: WorkloadPod, live: Mapping[str, Job]) -> bool:
    job = live.get(pod.metadata.labels.get(names.JOB_LABEL, ""))
    if pod.spec.node_name:
        named = job is not None and pod.metadata.name in job.admin_comment
        return job is not None and named and job.state.running and pod.spec.node_name in expand(job.nodes)
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    return job is not None or (condition is not None and condition.reason in WAITING_WITHOUT_JOB)


def _describe(pod: WorkloadPod, live: Mapping[str, Job]) -> tuple[object, ...]:
    """What Kubernetes and Slurm say about a pod."""
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    job = live.get(pod.metadata.labels.get(names.JOB_LABEL, ""))
    facts = (job.job_id, job.sluid, str(job.state), job.nodes, job.admin_comment) if job else None
    return pod.metadata.name, pod.spec.node_name, pod.metadata.labels, pod.metadata.annotations, condition, facts


def granted_devices(stage: DeviceStage, node: Any) -> set[str]:
    """Slurm's grant as names of devices: GPU i is `gpu-i`, core c is CPUs c and c + 8."""
    allowed: set[str] = set()
    for gres in node.gres:
        for part in filter(None, (gres.index or "").split(",")):
            first, _, last = part.partition("-")
            allowed |= {f"{stage.gpu}/{node.node}/gpu-{n}" for n in range(int(first), int(last or first) + 1)}
    value = int(node.core_bitmap, 16)
    for core in (bit for bit in range(value.bit_length()) if value >> bit & 1):
        allowed |= {f"{stage.cpu}/{node.node}/cpudev{cpu:03}" for cpu in (core, core + 8)}
    return allowed


class KubeletSimulation:
    """Does what kubelets, the claim controller and the garbage collector do, with random delays."""

    def __init__(self, checker: InvariantChecker, rng: random.Random) -> None:
        self.checker, self.stage, self.random = checker, checker.stage, rng
        self.prepared: dict[str, str] = {}  # device to the uid of its pod
        self.leaving: dict[str, int] = {}  # rounds until a deleted pod stops
        self.finish: set[str] = set()  # pods that succeed in the next round
        self.unreachable: set[str] = set()  # nodes whose kubelets do nothing
        self.started = self.prepared_count = 0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            for pod in [pod for pod in self.checker.pods if pod.spec.node_name not in self.unreachable]:
                with contextlib.suppress(KubeError):
                    await self._run_pod(pod)
            await self._collect_claims()
            await asyncio.sleep(0.1)

    async def _run_pod(self, pod: WorkloadPod) -> None:
        uid, name, phase = pod.metadata.uid, pod.metadata.name, pod.status.phase
        if not pod.spec.node_name:
            if pod.metadata.deleting and names.FINALIZER not in pod.metadata.finalizers:
                await self.stage.delete_pod(name, grace=0)
            return
        if phase == "Pending" and not pod.metadata.deleting:
            self._check_fits(pod)
            await self._prepare(pod)
            self.started += 1
            await self.stage.report_phase(name, "Running")
        elif phase in ENDED:
            self._unprepare(uid)
            if pod.metadata.deleting:
                await self.stage.delete_pod(name, grace=0)
        elif pod.metadata.deleting:
            left = self.leaving.setdefault(uid, self.random.randrange(8))
            self.leaving[uid] = left - 1
            if left <= 0:
                self._unprepare(uid)
                await self.stage.report_phase(name, "Failed", 137)
        elif phase == "Running" and name in self.finish:
            self._unprepare(uid)
            await self.stage.report_phase(name, "Succeeded", 0)

    def _check_fits(self, pod: WorkloadPod) -> None:
        """A kubelet rejects a pod that does not fit beside the pods on its node."""
        neighbours = [
            other
            for other in self.checker.pods
            if other.spec.node_name == pod.spec.node_name and other.status.phase not in ENDED
        ]
        used = sum(
            int(container.resources.requests.get("cpu", 0))
            for other in neighbours
            for container in other.spec.containers
        )
        if used > CPUS:
            self.checker.violations.append(f"{pod.spec.node_name} has {CPUS} CPUs, {pod.key} makes it {used}")

    async def _prepare(self, pod: WorkloadPod) -> None:
        """Prepare the devices of the pod's claims, as a driver does; a device of another pod is a violation.

        The claims are read again, as a kubelet does: the watch of claims may be behind that of pods, and then still
        show devices of an earlier job of the pod.
        """
        uid = pod.metadata.uid
        claims = await self.stage.client.list(CLAIMS, namespace=self.stage.namespace)
        mine = [claim for claim in claims if uid in consumers(claim)]
        extended = any("/" in name for container in pod.spec.containers for name in container.resources.limits)
        if (extended or pod.spec.resource_claims) and not mine:
            self.checker.violations.append(f"{pod.key} was bound without its devices")
        for claim in mine:
            for device in device_names(claim):
                self.prepared_count += 1
                if pod.spec.node_name not in device:
                    self.checker.violations.append(f"{pod.key} on {pod.spec.node_name} was given {device}")
                holder = self.prepared.setdefault(device, uid)
                if holder != uid:
                    self.checker.violations.append(f"{device} is prepared for {pod.key} while {holder} still has it")

    def _unprepare(self, uid: str) -> None:
        self.prepared = {device: holder for device, holder in self.prepared.items() if holder != uid}

    async def _collect_claims(self) -> None:
        alive = {pod.metadata.uid for pod in self.checker.pods if pod.status.phase not in ENDED}
        there = {pod.metadata.uid for pod in self.checker.pods}
        for claim in list(self.checker.claims):
            owners = [owner.uid for owner in claim.metadata.owner_references]
            pods = consumers(claim)
            with contextlib.suppress(KubeError):
                if owners and not there & set(owners):
                    now = await self.stage.client.list(OUR_PODS, namespace=self.stage.namespace)
                    if not {pod.metadata.uid for pod in now} & set(owners):
                        await self.stage.client.delete(RESOURCE_CLAIMS, claim.key)
                elif not owners and pods and not alive & set(pods):
                    await self._deallocate(claim, pods)

    async def _deallocate(self, claim: Unstructured, pods: dict[str, str]) -> None:
        for uid, name in pods.items():
            pod = await self.stage.find_pod(name)
            if pod and pod.metadata.uid == uid and pod.status.phase not in ENDED:
                return
        meta = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": meta, "status": {"allocation": None, "reservedFor": None}}
        await self.stage.client.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")


async def is_nothing_left(checker: InvariantChecker) -> bool:
    """No pod, no live job, no claim with an allocation or an owner."""
    listed = await checker.stage.client.list(CLAIMS, namespace=checker.stage.namespace)
    pods = await checker.stage.client.list(OUR_PODS, namespace=checker.stage.namespace)
    live = [job.job_id for job in await checker.jobs() if job.state.live]
    left = [claim.key for claim in listed if device_names(claim) or claim.metadata.owner_references]
    assert (pods, live, left) == ([], [], []), (
        [(pod.key, pod.status.phase, pod.metadata.finalizers) for pod in pods],
        live,
        left,
    )
    return True
