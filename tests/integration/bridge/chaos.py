# SPDX-License-Identifier: Apache-2.0
"""Parts of the randomized test: a real bridge process to kill, hands for kubelets and controllers, and an observer.

The observer knows nothing of the bridge: it has watches and a slurmrestd client of its own, reads claims and jobs by
itself, and judges every event.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from tests.integration.bridge.rack import Rack

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS, RESOURCE_CLAIMS, WorkloadPod
from slinky.kube import AlreadyExists, Conflict, NotFound, Runtime, Unstructured
from slinky.lab.kubernetes.bare_plane import WITH_US, PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import Job, SlurmError

#: Of every node.
CPUS = 16
WHOLE_CLAIMS = RESOURCE_CLAIMS.viewed_as(Unstructured)


class Process:
    """The bridge as the command starts it, to be killed at any moment."""

    def __init__(self, made: Rack, plane: PlainPlane, slurm: Beside, folder: Path) -> None:
        key, self._config, self._log = folder / "jwt", folder / "config.yaml", folder / "bridge.log"
        key.write_bytes(slurm.jwt_key)
        settings = msgspec.structs.replace(
            made.stage.settings, slurm_rest_api=slurm.url, jwt_key_file=str(key), not_ready_seconds=3600
        )
        self._config.write_text(json.dumps(msgspec.to_builtins(settings)))
        self._env = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        self._child: subprocess.Popen[bytes] | None = None
        self.kills = 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._health = f"127.0.0.1:{probe.getsockname()[1]}"

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._child is None:
            addresses = ["--health-addr", self._health, "--metrics-addr", "0"]
            argv = [sys.executable, "-m", "slinky.cli", "bridge", "--config", str(self._config), *addresses]
            with self._log.open("ab") as out:
                self._child = subprocess.Popen([*WITH_US, *argv], env=self._env, stdout=out, stderr=out)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self.kills += 1
            self._child = None

    async def ready(self) -> None:
        """Wait until it knows both sides."""
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                self.alive()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://{self._health}/readyz") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.05)

    def alive(self) -> None:
        """It must not have ended by itself."""
        assert self._child is None or self._child.poll() is None, self.tail()

    def tail(self) -> str:
        """Its last words."""
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""


def devices(claim: Unstructured) -> set[str]:
    """What a claim holds, read from its own words: devices by name, CPUs of groups by number."""
    found = ((claim.status or {}).get("allocation") or {}).get("devices", {})
    held: set[str] = set()
    for result in found.get("results", ()):
        if "shareID" not in result:
            held.add(f"{result['driver']}/{result['pool']}/{result['device']}")
            continue
        (setting,) = [one for one in found["config"] if result["request"] in one["requests"]]
        for part in setting["opaque"]["parameters"]["cpuConfig"]["cpuset"].split(","):
            first, _, last = part.partition("-")
            held |= {f"{result['driver']}/{result['pool']}/{n}" for n in range(int(first), int(last or first) + 1)}
    return held


def users(claim: Unstructured) -> dict[str, str]:
    """The pods that may use a claim: uid to name."""
    return {user["uid"]: user["name"] for user in (claim.status or {}).get("reservedFor") or ()}


class Observer:
    """Judges what everybody can see."""

    def __init__(self, made: Rack) -> None:
        self.made, self.stage = made, made.stage
        self.runtime = Runtime(made.client)
        self.pods = self.runtime.cache(OUR_PODS, namespace=made.stage.namespace)
        self.claims = self.runtime.cache(WHOLE_CLAIMS, namespace=made.stage.namespace)
        self.claims.listen(self._claim_changed)
        self.wrongs: list[str] = []
        self.cancelled: set[int] = set()  # by the test, not by the bridge
        self.looks = 0
        self.events = 0

    def _claim_changed(self, _old: Unstructured | None, new: Unstructured | None) -> None:
        self.events += 1
        if new is None:
            return
        mine = devices(new)
        for other in self.claims:
            if other.metadata.uid != new.metadata.uid and (twice := mine & devices(other)):
                self.wrongs.append(f"{sorted(twice)} are held by {new.key} and {other.key}")

    async def jobs(self) -> list[Job]:
        """Every job of this bridge, dead or alive, at one moment."""
        listing = await self.stage.slurm.jobs()
        mark = f'"bridge":"{self.stage.settings.bridge_name}"'
        return [job for job in (listing.items if listing else ()) if mark in job.admin_comment]

    async def look(self) -> None:
        """Compare Slurm's jobs with the pods."""
        found = await self.jobs()
        self.looks += 1
        live = [job for job in found if job.state.live]
        owner: dict[str, int] = {}
        for job in live:
            for pod in json.loads(job.admin_comment)["pods"]:
                if pod in owner:
                    self.wrongs.append(f"{pod} has two live jobs, {owner[pod]} and {job.job_id}")
                owner[pod] = job.job_id
        over = {str(job.job_id) for job in found if not job.state.live} - {str(job) for job in self.cancelled}
        for job_id in over:
            await self._ended(job_id)
        for job in live:
            if job.state.running:
                await self._running(job)

    async def _ended(self, job: str) -> None:
        """A job that the bridge ended must not have pods whose containers may run: asked after the job was seen."""
        for known in [pod for pod in self.pods if pod.metadata.labels.get(names.JOB_LABEL) == job]:
            pod = await self.stage.find(known.metadata.name)
            if pod is None or pod.metadata.uid != known.metadata.uid:
                continue
            running = pod.spec.node_name and pod.status.phase not in {"Succeeded", "Failed"}
            if running and pod.metadata.labels.get(names.JOB_LABEL) == job:
                self.wrongs.append(f"job {job} has ended and {pod.key} is {pod.status.phase}")

    async def _running(self, job: Job) -> None:
        """What pods of a job hold is what Slurm gave to it, on the nodes that it gave."""
        try:
            given = {found.node: found for found in await self.stage.slurm.resources(job.job_id)}
        except SlurmError:
            return  # it ended meanwhile
        label = str(job.job_id)
        for pod in [pod for pod in self.pods if pod.metadata.labels.get(names.JOB_LABEL) == label]:
            if not pod.spec.node_name or pod.status.phase in {"Succeeded", "Failed"}:
                continue
            if pod.spec.node_name not in given:
                self.wrongs.append(f"{pod.key} runs on {pod.spec.node_name}, which job {label} does not have")
                continue
            allowed = granted(self.made, given[pod.spec.node_name])
            for claim in self.claims:
                if pod.metadata.uid in users(claim) and (more := devices(claim) - allowed):
                    self.wrongs.append(f"{claim.key} of {pod.key} holds {sorted(more)} beyond job {label}")

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(0.1)

    def judge(self) -> None:
        """Fail on anything seen so far."""
        assert not self.wrongs, "\n".join(dict.fromkeys(self.wrongs))


def granted(made: Rack, found: Any) -> set[str]:
    """Slurm's grant in the names that the rack gave to its devices: GPU i is `gpu-i`, core c is CPUs c and c + 8."""
    allowed: set[str] = set()
    for gres in found.gres:
        for part in filter(None, (gres.index or "").split(",")):
            first, _, last = part.partition("-")
            allowed |= {f"{made.gpu}/{found.node}/gpu-{n}" for n in range(int(first), int(last or first) + 1)}
    value = int(found.core_bitmap, 16)
    for core in (bit for bit in range(value.bit_length()) if value >> bit & 1):
        allowed |= {f"{made.cpu}/{found.node}/cpudev{cpu:03}" for cpu in (core, core + 8)}
    return allowed


class Hands:
    """Does what kubelets, the claim controller and the garbage collector do, each in its own time."""

    def __init__(self, seen: Observer, chance: random.Random) -> None:
        self.seen, self.stage, self.chance = seen, seen.stage, chance
        self.prepared: dict[str, str] = {}  # device to the uid of the pod that has it on its node
        self.leaving: dict[str, int] = {}  # rounds that a pod takes to stop
        self.finish: set[str] = set()  # pods that are to end by themselves
        self.started = self.given = 0

    async def work(self) -> None:
        """Work until cancelled."""
        while True:
            for pod in list(self.seen.pods):
                try:
                    await self._pod(pod)
                except (NotFound, Conflict, AlreadyExists):
                    continue
            await self._claims()
            await asyncio.sleep(0.1)

    async def _pod(self, pod: WorkloadPod) -> None:
        uid, name, phase = pod.metadata.uid, pod.metadata.name, pod.status.phase
        if not pod.spec.node_name:
            if pod.metadata.deleting and names.FINALIZER not in pod.metadata.finalizers:
                await self.stage.delete(name, grace=0)
            return
        if phase == "Pending" and not pod.metadata.deleting:
            self._admit(pod)
            self._prepare(pod)
            self.started += 1
            await self.stage.phase(name, "Running")
        elif phase in {"Succeeded", "Failed"}:
            self._unprepare(uid)
            if pod.metadata.deleting:
                await self.stage.delete(name, grace=0)
        elif pod.metadata.deleting:
            left = self.leaving.setdefault(uid, self.chance.randrange(8))
            self.leaving[uid] = left - 1
            if left <= 0:
                self._unprepare(uid)
                await self.stage.phase(name, "Failed", 137)
        elif phase == "Running" and name in self.finish:
            self._unprepare(uid)
            await self.stage.phase(name, "Succeeded", 0)

    def _admit(self, pod: WorkloadPod) -> None:
        """A kubelet turns a pod away that does not fit beside what is still there."""
        there = [
            one
            for one in self.seen.pods
            if one.spec.node_name == pod.spec.node_name and one.status.phase not in {"Succeeded", "Failed"}
        ]
        used = sum(
            int(container.resources.requests.get("cpu", 0)) for one in there for container in one.spec.containers
        )
        if used > CPUS:
            self.seen.wrongs.append(f"{pod.spec.node_name} has {CPUS} CPUs, {pod.key} makes it {used}")

    def _prepare(self, pod: WorkloadPod) -> None:
        """Take the devices of the pod's claims, as a driver does; one that another pod has is a wrong."""
        uid = pod.metadata.uid
        mine = [claim for claim in self.seen.claims if uid in users(claim)]
        wants = any("/" in name for one in pod.spec.containers for name in one.resources.limits)
        if (wants or pod.spec.resource_claims) and not mine:
            self.seen.wrongs.append(f"{pod.key} was bound without its devices")
        for claim in mine:
            for device in devices(claim):
                self.given += 1
                if pod.spec.node_name not in device:
                    self.seen.wrongs.append(f"{pod.key} on {pod.spec.node_name} was given {device}")
                holder = self.prepared.setdefault(device, uid)
                if holder != uid:
                    self.seen.wrongs.append(f"{device} is prepared for {pod.key} while {holder} still has it")

    def _unprepare(self, uid: str) -> None:
        self.prepared = {device: holder for device, holder in self.prepared.items() if holder != uid}

    async def _claims(self) -> None:
        alive = {pod.metadata.uid for pod in self.seen.pods if pod.status.phase not in {"Succeeded", "Failed"}}
        there = {pod.metadata.uid for pod in self.seen.pods}
        for claim in list(self.seen.claims):
            owners = [owner.uid for owner in claim.metadata.owner_references]
            consumers = users(claim)
            try:
                if owners and not there & set(owners):
                    now = await self.stage.client.list(OUR_PODS, namespace=self.stage.namespace)
                    if not {pod.metadata.uid for pod in now} & set(owners):
                        await self.stage.client.delete(RESOURCE_CLAIMS, claim.key)
                elif not owners and consumers and not alive & set(consumers):
                    await self._free(claim, consumers)
            except (NotFound, Conflict):
                continue

    async def _free(self, claim: Unstructured, consumers: dict[str, str]) -> None:
        for uid, name in consumers.items():
            pod = await self.stage.find(name)
            if pod and pod.metadata.uid == uid and pod.status.phase not in {"Succeeded", "Failed"}:
                return
        meta = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": meta, "status": {"allocation": None, "reservedFor": None}}
        await self.stage.client.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")


async def unclaimed(seen: Observer) -> bool:
    """Nothing is left: no pod, no live job, no claim that holds anything or that nobody owns."""
    listed = await seen.stage.client.list(WHOLE_CLAIMS, namespace=seen.stage.namespace)
    pods = await seen.stage.client.list(OUR_PODS, namespace=seen.stage.namespace)
    live = [job.job_id for job in await seen.jobs() if job.state.live]
    left = [claim.key for claim in listed if devices(claim) or claim.metadata.owner_references]
    assert (pods, live, left) == ([], [], []), (
        [(pod.key, pod.status.phase, pod.metadata.finalizers) for pod in pods],
        live,
        left,
    )
    return True
