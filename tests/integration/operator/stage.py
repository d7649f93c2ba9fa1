# SPDX-License-Identifier: Apache-2.0
"""The operator on a real API server without kubelets: alone, or with a real Slurm and simulated workers.

`OperatorStage` is a namespace in which the operator works. `SlurmStage` has a cluster whose slurmrestd is a real one;
its operator is a process of its own behind a `FaultProxy`, and the stage does what kubelets and slurmd would do.
"""

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tests.integration.operator import chart_credentials
from tests.integration.operator.fault_proxy import FaultProxy, ForkedOperator
from tests.support.waiting import eventually, quiescent

from slinky.api.controller import CONTROLLERS
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMRESTD, VERSION_READER
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.kube import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Key,
    KubeClient,
    NotFound,
    Pod,
    Resource,
    connect,
)
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes.bare_plane import BarePlane, free_port
from slinky.lab.slurm.cluster import LabSlurm
from slinky.operator.metrics import WRITES
from slinky.slurm import Host, MintedToken, SlurmClient, SlurmError, SlurmNotFound, node_conf

S = TypeVar("S", bound="SlurmStage")

KEYS = {
    "slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"},
    "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"},
    # A size that the API server does not store as it was written.
    "persistence": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
REF = {"name": "slurm"}
WORKERS = f"{metadata.APP_NAME}=slurmd"
#: An image with which a simulated worker never becomes ready.
BAD = "bad"


class OperatorStage:
    """A namespace in which the operator works."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create_namespace(self) -> None:
        """Create the namespace and its service account, which the controller-manager creates in a real cluster."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        await self.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(self.namespace, "default")))

    async def find(self, resource: Resource[Any], name: str) -> Unstructured | None:
        return await self.client.find(resource.viewed_as(Unstructured), Key(self.namespace, name))

    async def get(self, resource: Resource[Any], name: str) -> Unstructured:
        """The object, once it exists."""
        item = await eventually(lambda: self.find(resource, name), f"{resource.kind} {name}")
        assert item is not None
        return item

    async def names(self, resource: Resource[Any]) -> list[str]:
        """The objects of a kind, without the pods that read versions, which no kubelet ends here."""
        items = await self.client.list(resource.viewed_as(Unstructured), namespace=self.namespace)
        named = ((item.metadata.name, item.metadata.labels.get(metadata.APP_NAME)) for item in items)
        return sorted(name for name, app in named if app != VERSION_READER.app)

    async def worker_pods(self) -> Sequence[Pod]:
        """The pods of workers, whichever NodeSet they belong to."""
        return await self.client.list(PODS, namespace=self.namespace, labels=WORKERS)

    async def apply(
        self, resource: Resource[Any], name: str, *, labels: dict[str, str] | None = None, **body: Any
    ) -> None:
        """Server-side apply as a user."""
        manifest = resource.manifest(Key(self.namespace, name), metadata={"labels": labels or {}}, **body)
        await self.client.apply(resource.viewed_as(Unstructured), manifest, manager="tester")

    async def secret(self, name: str, **data: str) -> None:
        await self.apply(SECRETS, name, stringData=data)

    async def config(self, name: str, **data: str) -> None:
        await self.apply(CONFIG_MAPS, name, data=data)

    async def create_keys(self) -> None:
        """The Secrets that `KEYS` refers to."""
        await self.secret("slurm-key", **{"slurm.key": "k" * 64})
        await self.secret("jwt-key", **{"jwt.key": "j" * 32})

    async def apply_controller(self, labels: dict[str, str] | None = None, **spec: Any) -> None:
        await self.apply(CONTROLLERS, "slurm", labels=labels, spec={**KEYS, **spec})

    async def condition(self, resource: Resource[Any], name: str, condition: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        item = await self.find(resource, name)
        conditions = ((item.status if item else None) or {}).get("conditions", ())
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == condition), ("", ""))

    async def wait_condition(
        self, resource: Resource[Any], name: str, condition: str, status: str, reason: str
    ) -> None:
        """Wait until a condition has this status and reason."""

        async def is_reported() -> bool:
            return await self.condition(resource, name, condition) == (status, reason)

        await eventually(is_reported, f"condition {condition} of {resource.kind} {name} with reason {reason}")

    async def wait_deleted(self, resource: Resource[Any], name: str) -> None:
        async def is_deleted() -> bool:
            return await self.find(resource, name) is None

        await eventually(is_deleted, f"deletion of {resource.kind} {name}")

    async def wait_names(self, resource: Resource[Any], *names: str) -> None:
        """Wait until the namespace has exactly these objects of a kind."""

        async def exist() -> bool:
            return await self.names(resource) == sorted(names)

        await eventually(exist, f"{resource.kind} {', '.join(names)}")

    def writes(self) -> float:
        """How often the operator has written to Kubernetes."""
        samples = [sample for metric in WRITES.collect() for sample in metric.samples]
        return sum(sample.value for sample in samples if sample.name.endswith("_total"))

    async def quiescent(self) -> None:
        """Wait until the operator has stopped writing."""

        async def observe() -> float:
            return self.writes()

        await quiescent(observe, "the operator's writes")


class SlurmStage(OperatorStage):
    """A namespace with one cluster of simulated workers.

    `undrained_deletions` are workers that were deleted although Slurm had not drained them.
    """

    def __init__(self, client: KubeClient, slurm: SlurmClient, proxy: FaultProxy, namespace: str) -> None:
        super().__init__(client, namespace)
        self.slurm = slurm
        self.proxy = proxy
        self.prefix = f"{namespace}-"
        self.uids: set[str] = set()
        self.most_pods = 0
        self.least_ready = 10**6  # since a test has set it
        self.undrained_deletions: list[str] = []
        self.shape: dict[str, str | int] = {"CPUs": 2, "RealMemory": 1000, "Feature": "ext"}

    # What users do -------------------------------------------------------------------------------------------------

    async def create_cluster(self, jwt_key: bytes, address: str) -> None:
        """A Controller, and a RestApi whose slurmrestd is at this address."""
        await self.create_namespace()
        for name, value in (("slurm", b"k" * 64), ("jwt", jwt_key)):
            await self.apply(SECRETS, f"{name}-key", data={f"{name}.key": base64.b64encode(value).decode()})
        await self.apply_controller()
        await self.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
        pod = {"containers": [{"name": "slurmrestd", "image": "x"}]}
        await self.apply(PODS, "slurmrestd", labels=SLURMRESTD.labels("slurm"), spec=pod)
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [_true("Ready")]}
        await self.client.patch(PODS, Key(self.namespace, "slurmrestd"), {"status": status}, subresource="status")

    async def apply_workers(self, replicas: int, image: str = "v1", **spec: Any) -> None:
        fields = {
            "controllerRef": REF,
            "replicas": replicas,
            "slurmd": {"image": image},
            "template": {"spec": {"hostname": self.prefix}},
            **spec,
        }
        await self.apply(NODE_SETS, "gpu", spec=fields)

    # What users see ------------------------------------------------------------------------------------------------

    async def pods(self) -> dict[str, Pod]:
        """The workers' pods by name."""
        return {pod.metadata.name: pod for pod in await self.worker_pods()}

    async def pod_uids(self) -> set[str]:
        return {pod.metadata.uid for pod in (await self.pods()).values()}

    async def host(self, number: int) -> Host | None:
        """The host of a worker in Slurm."""
        with contextlib.suppress(SlurmNotFound):
            return await self.slurm.node(f"{self.prefix}{number}")
        return None

    async def has_workers(self, replicas: int, image: str = "v1") -> bool:
        """Whether so many workers with this image are ready, idle in Slurm, and reported by the NodeSet."""
        pods = await self.pods()
        if len(pods) != replicas or any(pod.metadata.deleting for pod in pods.values()):
            return False
        for name in pods:
            host = await self.host(_ordinal(name))
            if host is None or not host.state.idle or host.state.draining:
                return False
        whole = await self.client.list(PODS.viewed_as(Unstructured), namespace=self.namespace, labels=WORKERS)
        if {pod.spec["containers"][0]["image"] for pod in whole} - {image}:
            return False
        statuses = {"Ready": "True", "Progressing": "False", "SlurmReachable": "True"}
        return {kind: (await self.condition(NODE_SETS, "gpu", kind))[0] for kind in statuses} == statuses

    async def wait_workers(self, replicas: int, image: str = "v1") -> None:
        await eventually(lambda: self.has_workers(replicas, image), f"{replicas} workers with image {image}")

    async def summary(self) -> dict[str, Any]:
        """The state of the cluster, without what differs from run to run."""
        pods = await self.pods()
        hosts = {name: await self.host(_ordinal(name)) for name in pods}
        node_set = await self.find(NODE_SETS, "gpu")
        status = (node_set.status or {}) if node_set else {}
        return {
            "pods": {name: bool(pod.metadata.annotations.get(metadata.POD_CONDEMNED)) for name, pod in pods.items()},
            "revisions": len({pod.metadata.labels[metadata.REVISION] for pod in pods.values()}),
            "hosts": {name: sorted(host.state.flags) if host else None for name, host in hosts.items()},
            "conditions": {one["type"]: one["status"] for one in status.get("conditions", ())},
            "counts": {name: status.get(name) for name in ("replicas", "readyReplicas", "updatedReplicas")},
            "created": len(self.uids),
        }

    # What kubelets and slurmd do -----------------------------------------------------------------------------------

    async def simulate_workers(self) -> None:
        """Bind, start, register and stop workers, for ever."""
        while True:
            pods = await self.pods()
            self.most_pods = max(self.most_pods, len(pods))
            ready = sum(pod.ready and not pod.metadata.deleting for pod in pods.values())
            self.least_ready = min(self.least_ready, ready)
            for pod in pods.values():
                with contextlib.suppress(NotFound, SlurmError):
                    await self._advance(pod)
            await asyncio.sleep(0.05)

    async def _advance(self, pod: Pod) -> None:
        meta, host = pod.metadata, f"{self.prefix}{_ordinal(pod.metadata.name)}"
        if meta.deleting:
            if pod.ready and not (await self.slurm.node(host)).state.drained:
                self.undrained_deletions.append(meta.name)
            await self.client.delete(PODS, meta.key, grace=0)
        elif not pod.spec.node_name:
            self.uids.add(meta.uid)
            await self.client.bind(meta.key, "nowhere", uid=meta.uid)
        elif not pod.ready and not await self._has_bad_image(meta.key):
            await self.register(host)
            status = {"phase": "Running", "podIP": "10.0.0.9", "conditions": [_true("Ready")]}
            await self.client.patch(PODS, meta.key, {"status": status}, subresource="status")

    async def _has_bad_image(self, key: Key) -> bool:
        whole = await self.client.get(PODS.viewed_as(Unstructured), key)
        return bool(whole.spec["containers"][0]["image"] == BAD)

    async def register(self, host: str) -> None:
        """Create a host in Slurm, as the registration of a slurmd does."""
        try:
            await self.slurm.node(host)
        except SlurmNotFound:
            await self.slurm.create_node(node_conf(host, NodeAddr="127.0.0.1", State="EXTERNAL", **self.shape))

    async def remove_hosts(self) -> None:
        """Delete all hosts of this stage from Slurm."""
        listed = await self.slurm.nodes()
        hosts = [host.name for host in (listed.items if listed else ()) if host.name.startswith(self.prefix)]
        if hosts:
            await self.slurm.delete_nodes(*hosts)


@contextlib.asynccontextmanager
async def stage_of(kind: type[S], plane: BarePlane, slurm: LabSlurm, folder: Path, **settings: Any) -> AsyncIterator[S]:
    """A cluster of this kind, whose operator reaches the API server and slurmrestd through a `FaultProxy` only."""
    namespace, proxy = f"st-{secrets.token_hex(3)}", FaultProxy()
    address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}.{secrets.randbelow(250) + 2}"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(str(plane.kubeconfig)))
        token = MintedToken(lambda: slurm.jwt_key, "slurm")
        slurm_client = await stack.enter_async_context(SlurmClient(slurm.url, token))
        headers = {"Authorization": f"Bearer {chart_credentials.token(plane)}"}
        kube_url = await stack.enter_async_context(proxy.serve("kube", plane.url, headers=headers))
        await stack.enter_async_context(proxy.serve("slurm", slurm.url, address, SLURMRESTD_PORT))
        config = folder / f"{namespace}.kubeconfig"
        config.write_text(yaml.safe_dump(_kubeconfig(kube_url)))
        proxy.operator = ForkedOperator(
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
        stack.callback(proxy.operator.close)
        stage = kind(client, slurm_client, proxy, namespace)
        await stage.create_cluster(slurm.jwt_key, address)
        simulation = asyncio.create_task(stage.simulate_workers())
        proxy.operator.start()
        try:
            yield stage
        finally:
            simulation.cancel()
            await asyncio.gather(simulation, return_exceptions=True)
            proxy.operator.kill()
            await stage.remove_hosts()


def slurm_stage(*arguments: Any, **settings: Any) -> contextlib.AbstractAsyncContextManager[SlurmStage]:
    """A cluster of the plain kind; see `stage_of`."""
    return stage_of(SlurmStage, *arguments, **settings)


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server}}],
    }
