# SPDX-License-Identifier: Apache-2.0
"""Workers between a real API server without kubelets and a real Slurm, with hands for what kubelets and slurmd do."""

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from tests.integration.operator import rights
from tests.integration.operator.gates import Gates, Lives

from slinky.api.controller import CONTROLLERS
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.kube import NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, Key, KubeClient, NotFound, Pod, Resource, connect
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes.bare_plane import PlainPlane, free_port
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import Host, MintedToken, SlurmError, node_conf
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmNotFound as NoSuchHost

WORKERS = "app.kubernetes.io/name=slurmd"
BAD = "bad"


class Stage:
    """One namespace with one cluster. `wrongs` are deletions of workers that Slurm had not drained."""

    def __init__(self, client: KubeClient, slurm: Slurm, gates: Gates, namespace: str) -> None:
        self.client = client
        self.slurm = slurm
        self.gates = gates
        self.namespace = namespace
        self.prefix = f"{namespace}-"
        self.uids: set[str] = set()
        self.most = 0
        self.least_ready = 10**6  # since somebody set it
        self.wrongs: list[str] = []

    # --- what people do

    async def cluster(self, jwt_key: bytes, address: str) -> None:
        """A Controller, and a RestApi whose slurmrestd is at this address."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        await self.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(self.namespace, "default")))
        for name, value in (("slurm", b"k" * 64), ("jwt", jwt_key)):
            await self.apply(SECRETS, f"{name}-key", data={f"{name}.key": base64.b64encode(value).decode()})
        refs = {f"{name}KeyRef": {"name": f"{name}-key", "key": f"{name}.key"} for name in ("slurm", "jwt")}
        disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await self.apply(CONTROLLERS, "slurm", spec={**refs, "persistence": disk})
        await self.apply(REST_APIS, "slurm", spec={"controllerRef": {"name": "slurm"}})
        pod = {"containers": [{"name": "slurmrestd", "image": "x"}]}
        await self.apply(PODS, "slurmrestd", metadata={"labels": SLURMRESTD.labels("slurm")}, spec=pod)
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [_true("Ready")]}
        await self.client.patch(PODS, Key(self.namespace, "slurmrestd"), {"status": status}, subresource="status")

    async def workers(self, replicas: int, image: str = "v1", **spec: Any) -> None:
        """Want these workers."""
        made = {
            "controllerRef": {"name": "slurm"},
            "replicas": replicas,
            "slurmd": {"image": image},
            "template": {"spec": {"hostname": self.prefix}},
            **spec,
        }
        await self.apply(NODE_SETS, "gpu", spec=made)

    async def apply(self, resource: Resource[Any], name: str, **body: Any) -> None:
        """Server-side apply, as a person."""
        manifest = resource.manifest(Key(self.namespace, name), **body)
        await self.client.apply(resource.viewed_as(Unstructured), manifest, manager="tester")

    # --- what can be seen

    async def pods(self) -> dict[str, Pod]:
        """The workers' pods by name."""
        found = await self.client.list(PODS, namespace=self.namespace, labels=WORKERS)
        return {pod.metadata.name: pod for pod in found}

    async def host(self, number: int) -> Host | None:
        """A worker as Slurm has it."""
        with contextlib.suppress(NoSuchHost):
            return await self.slurm.node(f"{self.prefix}{number}")
        return None

    async def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition of the NodeSet."""
        found = await self.client.find(NODE_SETS.viewed_as(Unstructured), Key(self.namespace, "gpu"))
        said = ((found.status if found else None) or {}).get("conditions", ())
        return next(((one["status"], one["reason"]) for one in said if one["type"] == kind), ("", ""))

    async def settled(self, replicas: int, image: str = "v1") -> bool:
        """So many workers of this image, ready, known to Slurm as idle, and the NodeSet says so."""
        pods = await self.pods()
        if len(pods) != replicas or any(pod.metadata.deleting for pod in pods.values()):
            return False
        for name in pods:
            host = await self.host(int(name.rpartition("-")[2]))
            if host is None or not host.state.idle or host.state.draining:
                return False
        whole = await self.client.list(PODS.viewed_as(Unstructured), namespace=self.namespace, labels=WORKERS)
        if {pod.spec["containers"][0]["image"] for pod in whole} - {image}:
            return False
        wanted = {"Ready": "True", "Progressing": "False", "SlurmReachable": "True"}
        return {kind: (await self.condition(kind))[0] for kind in wanted} == wanted

    async def picture(self) -> dict[str, Any]:
        """Everything that matters of this namespace, without what differs from run to run."""
        pods = await self.pods()
        hosts = {name: await self.host(int(name.rpartition("-")[2])) for name in pods}
        found = await self.client.find(NODE_SETS.viewed_as(Unstructured), Key(self.namespace, "gpu"))
        status = (found.status or {}) if found else {}
        return {
            "pods": {name: bool(pod.metadata.annotations.get(metadata.POD_CONDEMNED)) for name, pod in pods.items()},
            "revisions": len({pod.metadata.labels[metadata.REVISION] for pod in pods.values()}),
            "hosts": {name: sorted(host.state.flags) if host else None for name, host in hosts.items()},
            "conditions": {one["type"]: one["status"] for one in status.get("conditions", ())},
            "counts": {name: status.get(name) for name in ("replicas", "readyReplicas", "updatedReplicas")},
            "made": len(self.uids),
        }

    # --- what kubelets and slurmd do

    async def live(self) -> None:
        """Place, start, register and stop workers, for ever."""
        while True:
            pods = await self.pods()
            self.most = max(self.most, len(pods))
            self.least_ready = min(
                self.least_ready, sum(pod.ready and not pod.metadata.deleting for pod in pods.values())
            )
            for pod in pods.values():
                with contextlib.suppress(NotFound, SlurmError):
                    await self._step(pod)
            await asyncio.sleep(0.05)

    async def _step(self, pod: Pod) -> None:
        meta, host = pod.metadata, f"{self.prefix}{pod.metadata.name.rpartition('-')[2]}"
        if meta.deleting:
            if pod.ready and not (await self.slurm.node(host)).state.drained:
                self.wrongs.append(meta.name)
            await self.client.delete(PODS, meta.key, grace=0)
        elif not pod.spec.node_name:
            self.uids.add(meta.uid)
            await self.client.bind(meta.key, "nowhere", uid=meta.uid)
        elif not pod.ready and not await self._is_bad(meta.key):
            await self.register(host)
            status = {"phase": "Running", "podIP": "10.0.0.9", "conditions": [_true("Ready")]}
            await self.client.patch(PODS, meta.key, {"status": status}, subresource="status")

    async def _is_bad(self, key: Key) -> bool:
        whole = await self.client.get(PODS.viewed_as(Unstructured), key)
        return bool(whole.spec["containers"][0]["image"] == BAD)

    async def register(self, host: str) -> None:
        """Make a host known to Slurm, as its slurmd would."""
        try:
            await self.slurm.node(host)
        except NoSuchHost:
            shape: dict[str, str | int] = {"CPUs": 2, "RealMemory": 1000, "State": "EXTERNAL", "Feature": "ext"}
            await self.slurm.create_node(node_conf(host, NodeAddr="127.0.0.1", **shape))

    async def clear(self) -> None:
        """Leave nothing behind in Slurm."""
        listed = await self.slurm.nodes()
        ours = [host.name for host in (listed.items if listed else ()) if host.name.startswith(self.prefix)]
        if ours:
            await self.slurm.delete_nodes(*ours)


@contextlib.asynccontextmanager
async def stage(plane: PlainPlane, slurm: Beside, folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A cluster with an operator, which sees both servers through gates only."""
    namespace, gates = f"st-{secrets.token_hex(3)}", Gates()
    address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 2}"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(str(plane.kubeconfig)))
        ctld = await stack.enter_async_context(Slurm(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")))
        token = {"Authorization": f"Bearer {rights.token(plane)}"}
        kube = await stack.enter_async_context(gates.before("kube", plane.url, headers=token))
        await stack.enter_async_context(gates.before("slurm", slurm.url, address, SLURMRESTD_PORT))
        config = folder / f"{namespace}.kubeconfig"
        config.write_text(yaml.safe_dump(_kubeconfig(kube)))
        gates.lives = Lives(
            {
                "kubeconfig": str(config),
                "namespaces": [namespace],
                "pod_addresses": True,
                "cluster_domain": "cluster.local",
                "host": "127.0.0.1",
                "port": free_port(),
                **settings,
            },
            folder / f"{namespace}.log",
        )
        stack.callback(gates.lives.close)
        made = Stage(client, ctld, gates, namespace)
        await made.cluster(slurm.jwt_key, address)
        hands = asyncio.create_task(made.live())
        gates.lives.begin()
        try:
            yield made
        finally:
            hands.cancel()
            await asyncio.gather(hands, return_exceptions=True)
            gates.lives.kill()
            await made.clear()


async def until(check: Callable[[], Awaitable[Any]], what: str, seconds: float = 60) -> Any:
    """What `check` returns, once that is something."""
    end = time.monotonic() + seconds
    while True:
        if found := await check():
            return found
        assert time.monotonic() < end, f"{what} did not come true in {seconds:.0f} s"
        await asyncio.sleep(0.2)


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server}}],
    }
