# SPDX-License-Identifier: Apache-2.0
"""A lab with hollow nodes and a Slurm, and the operator as a process: shared by its benchmarks."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from slinky.api.controller import CONTROLLERS
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.kube import NAMESPACES, PODS, SECRETS, Key, KubeClient, KubeError, Resource, connect
from slinky.lab import bringup
from slinky.lab.kubernetes.bare_plane import WITH_US
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress

#: Few nodes with many pods each: renewing the leases of thousands of nodes would use two cores completely.
HOLLOW_NODES = 50
TICK = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running_lab(existing: str = "") -> Iterator[Lab]:
    """Start a lab with hollow nodes, the scheduler, Slurm and our kinds, or use an existing one."""
    options = bringup.LabOptions(name="bench-operator", nodes=0, hollow=HOLLOW_NODES, slurm="beside", owner=os.getpid())
    lab = Lab.find(existing) if existing else bringup.up(options, Progress())
    try:
        crds = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, text=True, check=True)
        lab.kubectl("apply", "--server-side", "-f", "-", input=crds.stdout)
        lab.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield lab
    finally:
        if not existing:
            bringup.down(lab.name)


class IdleUsage(NamedTuple):
    """Usage of an operator in a minute."""

    writes: float
    cpu: float  # share of a core
    memory: float  # MB


class OperatorProcess:
    """The operator as a separate process, and its resource usage."""

    def __init__(self, lab: Lab, *namespaces: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._settings = {
            "kubeconfig": str(lab.kubeconfig),
            "namespaces": namespaces,
            "pod_addresses": True,
            "cluster_domain": "cluster.local",
            "trial_seconds": 0,
            "unregistered_seconds": 3600,
            "host": "127.0.0.1",
            "port": self._port,
        }
        self._log = lab.folder / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> "OperatorProcess":
        argv = [sys.executable, "-m", "slinky.operator", json.dumps(self._settings)]
        self._start(argv)
        await wait_until(lambda: asyncio.to_thread(self._get, "/readyz"), "the operator's readiness")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(30)

    def _start(self, argv: list[str]) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*WITH_US, *argv], stdout=log, stderr=log)

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        assert self._process
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def memory(self) -> float:
        """Megabytes in use."""
        assert self._process
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def total(self, *names: str) -> float:
        """The sum of these counters."""
        lines = [line for line in self._get("/metrics").splitlines() if line.startswith(names)]
        return sum(float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#"))

    def writes(self) -> float:
        """Number of write requests to Kubernetes and Slurm."""
        own = self.total("slinky_operator_writes_total", "slinky_operator_slurm_writes_total")
        sent = [f'rest_client_requests_total{{code="{code}",method="{verb}"}}' for code in (200, 201) for verb in VERBS]
        return max(own, self.total(*sent))

    async def minute(self) -> IdleUsage:
        """Measure the usage of one minute."""
        writes, cpu = await asyncio.to_thread(self.writes), self.cpu
        await asyncio.sleep(60)
        return IdleUsage(await asyncio.to_thread(self.writes) - writes, (self.cpu - cpu) / 60, self.memory)

    async def quiet(self, seconds: float = 5) -> None:
        """Wait until it has written nothing for this many seconds."""

        async def unchanged() -> bool:
            before = await asyncio.to_thread(self.writes)
            await asyncio.sleep(seconds)
            return await asyncio.to_thread(self.writes) == before

        await wait_until(unchanged, "rest", 600)

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=20) as response:
                return str(response.read().decode())
        except OSError:
            return ""


#: Pod settings that allow many workers on one hollow node.
SHARED_NODES = {
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"bench": "nobody"}}}
            ]
        }
    },
}
VERBS = ("POST", "PUT", "PATCH", "DELETE")


class BenchNamespace:
    """A namespace with one cluster that uses a given slurmrestd."""

    def __init__(self, lab: Lab, client: KubeClient, namespace: str) -> None:
        self.lab = lab
        self.client = client
        self.namespace = namespace

    async def cluster(self, slurmrestd: str = "") -> None:
        """Create a Controller with its keys, and a pod with the address of the given slurmrestd."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        for name, value in (("slurm.key", b"k" * 64), ("jwt.key", self.lab.slurm.jwt_key)):
            data = {name: base64.b64encode(value).decode()}
            await self.apply(SECRETS, name.replace(".", "-"), data=data)
        refs = {f"{name}KeyRef": {"name": f"{name}-key", "key": f"{name}.key"} for name in ("slurm", "jwt")}
        disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await self.apply(CONTROLLERS, "slurm", spec={**refs, "persistence": disk})
        if slurmrestd:
            await self.use_slurmrestd(slurmrestd)

    async def use_slurmrestd(self, address: str) -> None:
        """Create a RestApi and a pod that represents the slurmrestd at this address."""
        await self.apply(REST_APIS, "slurm", spec={"controllerRef": {"name": "slurm"}, "replicas": 0})
        key = Key(self.namespace, "slurmrestd")
        spec = {"schedulerName": "nobody", "containers": [{"name": "slurmrestd", "image": "x"}]}
        await self.apply(PODS, key.name, metadata={"labels": SLURMRESTD.labels("slurm")}, spec=spec)
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
        await self.client.patch(PODS, key, {"status": status}, subresource="status")

    async def workers(self, count: int, name: str = "gpu") -> None:
        """Apply a NodeSet with this many workers."""
        spec = {
            "controllerRef": {"name": "slurm"},
            "replicas": count,
            "slurmd": {"image": "x"},
            "logfile": {"image": "x"},
            "template": {"spec": SHARED_NODES},
        }
        await self.apply(NODE_SETS, name, spec=spec)

    async def apply(self, resource: Resource[Any], name: str, **body: Any) -> None:
        """Apply an object as a user would."""
        manifest = resource.manifest(Key(self.namespace, name), **body)
        await self.client.apply(resource, manifest, manager="bench")

    async def clear(self) -> None:
        """Delete everything without draining."""
        resources: tuple[Resource[Any], ...] = (NODE_SETS, CONTROLLERS, REST_APIS)
        for resource in resources:
            for item in await self.client.list(resource, namespace=self.namespace):
                await self.client.patch(resource, item.key, {"metadata": {"finalizers": None}})
        if await self.client.find(NAMESPACES, Key("", self.namespace)):
            await self.client.delete(NAMESPACES, Key("", self.namespace))
        await wait_until(self._gone, f"the end of {self.namespace}", 900, every=1.0)

    async def _gone(self) -> bool:
        """Delete all pods with one request (the namespace controller deletes one by one); True when nothing is left."""
        with contextlib.suppress(KubeError):
            await self.client.delete_all(PODS, namespace=self.namespace, grace=0)
            return await self.client.find(NAMESPACES, Key("", self.namespace)) is None
        return False  # thousands of pods take the API server longer than a request may


@contextlib.asynccontextmanager
async def bench_namespace(lab: Lab, namespace: str) -> AsyncIterator[BenchNamespace]:
    """A namespace for one measurement; it is deleted afterwards."""
    async with connect(str(lab.kubeconfig)) as client:
        created = BenchNamespace(lab, client, namespace)
        try:
            yield created
        finally:
            await created.clear()


async def wait_until(check: Callable[[], Awaitable[Any]], what: str, seconds: float = 300, every: float = 0.1) -> Any:
    """Wait until `check` returns a true value, and return it."""
    end = time.monotonic() + seconds
    while not (result := await check()):
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come true in {seconds:.0f} s")
        await asyncio.sleep(every)
    return result
