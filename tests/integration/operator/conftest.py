# SPDX-License-Identifier: Apache-2.0
"""The operator on a real API server without nodes and without Slurm: what it writes, and what it does not."""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.conftest import MakeLab
from tests.integration.operator import rights

from slinky.kube import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, Key, KubeClient, Resource, connect
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.operator.app import main
from slinky.operator.metrics import WRITES
from slinky.operator.settings import OperatorSettings


class Desk:
    """A namespace that the operator works in, with the few verbs that tests need."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def find(self, resource: Resource[Any], name: str) -> Unstructured | None:
        return await self.client.find(resource.viewed_as(Unstructured), Key(self.namespace, name))

    async def get(self, resource: Resource[Any], name: str) -> Unstructured:
        found: Unstructured = await self.until(lambda: self.find(resource, name), f"{resource.kind} {name}")
        return found

    async def names(self, resource: Resource[Any]) -> list[str]:
        found = await self.client.list(resource.viewed_as(Unstructured), namespace=self.namespace)
        return sorted(item.metadata.name for item in found)

    async def apply(
        self, resource: Resource[Any], name: str, *, labels: dict[str, str] | None = None, **body: Any
    ) -> None:
        manifest = resource.manifest(Key(self.namespace, name), metadata={"labels": labels or {}}, **body)
        await self.client.apply(resource.viewed_as(Unstructured), manifest, manager="tester")

    async def secret(self, name: str, **data: str) -> None:
        await self.apply(SECRETS, name, stringData=data)

    async def config(self, name: str, **data: str) -> None:
        await self.apply(CONFIG_MAPS, name, data=data)

    async def condition(self, resource: Resource[Any], name: str, kind: str) -> tuple[str, str]:
        found = await self.find(resource, name)
        said = (found.status or {}).get("conditions", []) if found else []
        return next(((one["status"], one["reason"]) for one in said if one["type"] == kind), ("", ""))

    async def until(self, check: Callable[[], Any], what: str, seconds: float = 15) -> Any:
        """What `check` returns, once that is something."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            if found := await check():
                return found
            assert loop.time() < end, f"{what} did not come true"
            await asyncio.sleep(0.1)

    async def rest(self) -> None:
        """Wait until the operator has stopped writing."""

        async def quiet() -> bool:
            before = writes()
            await asyncio.sleep(1.5)
            return writes() == before

        await self.until(quiet, "rest", 30)


def writes() -> float:
    return sum(
        sample.value for metric in WRITES.collect() for sample in metric.samples if sample.name.endswith("_total")
    )


@pytest.fixture(scope="session")
def crds(plane: PlainPlane) -> None:
    text = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, check=True).stdout
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
    subprocess.run([*argv, "apply", "--server-side", "-f", "-"], input=text, check=True, capture_output=True)
    subprocess.run([*argv, "wait", "--for=condition=Established", "crd", "--all"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def alone(make_lab: MakeLab) -> Beside:
    """A Slurm that may lose its memory."""
    return make_lab(nodes=0, slurm="beside", slurm_nodes=1).slurm


@pytest.fixture
async def desk(plane: PlainPlane, crds: None) -> AsyncIterator[Desk]:
    name = f"op-{secrets.token_hex(3)}"
    settings = OperatorSettings(
        kubeconfig=str(rights.kubeconfig(plane)),
        namespaces=(name,),
        cluster_domain="cluster.local",
        trial_seconds=0,
        key_settle=1,
    )
    async with connect(str(plane.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        # Usually the controller-manager's work, and usually a little late.
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})
        running = asyncio.create_task(main(settings))
        yield Desk(client, name)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
