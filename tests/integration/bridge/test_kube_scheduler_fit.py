# SPDX-License-Identifier: Apache-2.0
"""The bridge and the real kube-scheduler agree on whether a pod fits on a node, for random nodes and pods."""

import contextlib
import json
import random
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import create_namespace
from tests.support.waiting import eventually

from slinky.bridge.feasibility import kubelet_capacity
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import NODES, Key, KubeClient
from slinky.kube.conditions import find_condition
from slinky.lab.kubernetes import control_plane
from slinky.lab.kubernetes.bare_plane import WITH_US, BarePlane

CASES, SEED = 150, 20261117
ORACLE = "fit-oracle"
GPU = "example.com/gpu"
#: Few different amounts, so that sums often equal the size of the node.
CPU = ("100m", "250m", "500m", "750m", "1", "1500m")
MEMORY = ("64Mi", "256Mi", "1Gi", "1500M")


def random_resources(rng: random.Random) -> dict[str, Any]:
    requests: dict[str, str] = {}
    for name, amounts in (("cpu", CPU), ("memory", MEMORY), ("ephemeral-storage", MEMORY)):
        if rng.random() < 0.6:
            requests[name] = rng.choice(amounts)
    gpus = {GPU: str(rng.randint(1, 2))} if rng.random() < 0.2 else {}
    limits = {"cpu": "2"} if rng.random() < 0.2 else {}
    return {"requests": requests | gpus, "limits": gpus | limits}


def random_pod(rng: random.Random, scheduler: str, **fields: Any) -> dict[str, Any]:
    """A pod with random containers, init containers, sidecars and pod-level resources."""
    containers = [{"name": f"c{i}", "image": "x", "resources": random_resources(rng)} for i in range(rng.randint(1, 2))]
    init = [
        {
            "name": f"i{i}",
            "image": "x",
            "resources": random_resources(rng),
            **({"restartPolicy": "Always"} if rng.random() < 0.5 else {}),
        }
        for i in range(rng.choice((0, 0, 1, 2)))
    ]
    level = {"resources": {"requests": {"cpu": "9"}}} if rng.random() < 0.1 else {}
    return {
        "schedulerName": scheduler,
        "containers": containers,
        "initContainers": init,
        "tolerations": [{"operator": "Exists"}],
        **level,
        **fields,
    }


def random_size(rng: random.Random) -> dict[str, str]:
    size = {
        "cpu": rng.choice(("1", "2", "3500m", "4", "10")),
        "memory": rng.choice(("512Mi", "2Gi", "3Gi", "8Gi")),
        "ephemeral-storage": rng.choice(("512Mi", "2Gi", "8Gi")),
        "pods": str(rng.randint(1, 4)),
    }
    return size | ({GPU: str(rng.randint(1, 4))} if rng.random() < 0.5 else {})


class Case:
    """A node with some pods, and a pod that may run only there."""

    def __init__(self, client: KubeClient, namespace: str, number: int) -> None:
        self.client, self.namespace = client, namespace
        self.name = f"{namespace}-{number}"
        self.rng = random.Random(SEED + number)  # noqa: S311 -- reproducible cases
        self.size = random_size(self.rng)

    async def create(self) -> None:
        metadata = {"labels": {"kubernetes.io/hostname": self.name}}
        await self.client.create(NODES, NODES.manifest(Key("", self.name), metadata=metadata))
        condition = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        status = {"capacity": self.size, "allocatable": self.size, "conditions": [condition]}
        await self.client.patch(NODES, Key("", self.name), {"status": status}, subresource="status")
        for i in range(self.rng.choice((0, 1, 1, 2, 3))):
            await self._create_pod(f"{self.name}-{i}", random_pod(self.rng, "another", nodeName=self.name))
            if self.rng.random() < 0.15:
                phase = {"status": {"phase": self.rng.choice(("Succeeded", "Failed"))}}
                key = Key(self.namespace, f"{self.name}-{i}")
                await self.client.patch(OUR_PODS, key, phase, subresource="status")
        selector = {"kubernetes.io/hostname": self.name}
        await self._create_pod(self.name, random_pod(self.rng, ORACLE, nodeSelector=selector))

    async def _create_pod(self, name: str, spec: dict[str, Any]) -> None:
        await self.client.create(OUR_PODS, OUR_PODS.manifest(Key(self.namespace, name), spec=spec))

    def fits(self, present: list[WorkloadPod], arriving: WorkloadPod) -> bool:
        """The result of the bridge."""
        allocatable = kubelet_capacity.parse_allocatable(self.size)
        requested = dict(kubelet_capacity.requests_of(arriving))
        if GPU in requested and GPU not in allocatable:
            return False  # `constraints` excludes the node
        used = kubelet_capacity.sum_requests(
            kubelet_capacity.requests_of(pod) for pod in present if not pod_state.is_finished(pod)
        )
        return kubelet_capacity.find_shortage(allocatable, used, requested) is None


@contextlib.contextmanager
def kube_scheduler(plane: BarePlane) -> Iterator[None]:
    """The real kube-scheduler, for pods that name the oracle."""
    config = {
        **control_plane.scheduler_config(plane.plane),
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 500, "burst": 1000},
        "profiles": [{"schedulerName": ORACLE}],
    }
    file, log = plane.folder / "oracle.yaml", plane.folder / "oracle.log"
    file.write_text(json.dumps(config))
    command = [str(plane.plane.binaries / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
    with log.open("wb") as output:
        process = subprocess.Popen([*WITH_US, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def cases(kube: KubeClient) -> AsyncIterator[list[Case]]:
    namespace = await create_namespace(kube)
    cases = [Case(kube, namespace, number) for number in range(CASES)]
    for case in cases:
        await case.create()
    yield cases
    for pod in await kube.list(OUR_PODS, namespace=namespace):
        await kube.delete(OUR_PODS, pod.key, grace=0)
    for case in cases:
        await kube.delete(NODES, Key("", case.name))


async def test_the_bridge_and_kube_scheduler_agree_on_what_fits(
    plane: BarePlane, kube: KubeClient, cases: list[Case]
) -> None:
    pods = {pod.metadata.name: pod for pod in await kube.list(OUR_PODS, namespace=cases[0].namespace)}
    expected = {
        case.name: case.fits([pod for pod in pods.values() if pod.spec.node_name == case.name], pods[case.name])
        for case in cases
    }

    async def results() -> dict[str, bool]:
        current = {pod.metadata.name: pod for pod in await kube.list(OUR_PODS, namespace=cases[0].namespace)}
        undecided = [
            case.name
            for case in cases
            if not current[case.name].spec.node_name
            and find_condition(current[case.name].status.conditions, "PodScheduled") is None
        ]
        assert not undecided, len(undecided)
        return {case.name: bool(current[case.name].spec.node_name) for case in cases}

    with kube_scheduler(plane):
        actual = await eventually(results, "a result of kube-scheduler for every pod")
    assert actual == expected
    assert 0.2 < sum(actual.values()) / CASES < 0.8  # both results occur often
