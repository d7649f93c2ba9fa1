# SPDX-License-Identifier: Apache-2.0
"""A real HorizontalPodAutoscaler follows our external metrics, on a real API server with a real slurmctld."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.operator.elastic_stage import NAME, ElasticStage, elastic_stage
from tests.support.waiting import eventually

from slinky.kube import SERVICES, Key, NotFound, Resource
from slinky.kube.aggregation import API_SERVICES
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes import pki
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.observe import SystemClock
from slinky.observe.metrics import REGISTRY
from slinky.webhook.external_metrics import API, GROUP, REGISTERED, VERSION, serving_external_metrics

pytestmark = pytest.mark.lab

AUTOSCALERS = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", Unstructured)
EXAMPLE = Path(__file__).parents[3] / "examples/operator/hpa.yaml"
REGISTRATION = Key("", f"{VERSION}.{GROUP}")
#: The Service of the metrics; its name leads to this machine.
SERVICE = "metrics"


class CountingClock(SystemClock):
    """Counts answers: the server reads the time for each."""

    answers = 0

    def now(self) -> datetime:
        self.answers += 1
        return super().now()


class MetricsServer:
    """The server of external metrics, which a test starts and stops."""

    def __init__(self, stage: ElasticStage, folder: Path) -> None:
        self.stage, self.folder, self.clock = stage, folder, CountingClock()
        self.service = Key(stage.namespace, SERVICE)
        authority = pki.Authority(folder, "ca")
        authority.issue("tls", "metrics", hosts=[f"{SERVICE}.{stage.namespace}.svc"])

    async def create_service(self) -> None:
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": 443}]}
        await self.stage.apply(SERVICES, SERVICE, spec=spec)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        settings: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "clock": self.clock}
        async with serving_external_metrics(self.stage.client, self.folder, self.service, **settings):
            yield

    async def wait_answers(self, count: int) -> None:
        """Wait until autoscalers have got so many further values."""
        expected = self.clock.answers + count

        async def have_come() -> bool:
            return self.clock.answers >= expected

        await eventually(have_come, f"{count} answers")


@pytest.fixture(scope="module")
def autoscalers(plane: BarePlane) -> Iterator[None]:
    """The controller of HorizontalPodAutoscalers, which looks at each of them every second."""
    flags = ("--horizontal-pod-autoscaler-sync-period=1s",)
    with plane.controllers("horizontal-pod-autoscaler-controller", flags=flags):
        yield


@pytest.fixture
async def stage(plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path) -> AsyncIterator[ElasticStage]:
    """A cluster without workers, and afterwards an API server without external metrics."""
    async with elastic_stage(plane, own_slurm, tmp_path) as stage:
        yield stage
        with contextlib.suppress(NotFound):
            await stage.client.delete(API_SERVICES, REGISTRATION)


@pytest.fixture
async def server(stage: ElasticStage, tmp_path: Path) -> MetricsServer:
    folder = tmp_path / "certificates"
    folder.mkdir()
    server = MetricsServer(stage, folder)
    await server.create_service()
    return server


async def apply_autoscaler(stage: ElasticStage) -> None:
    """Apply the example for the NodeSet of this stage."""
    spec = yaml.safe_load(EXAMPLE.read_text())["spec"]
    spec["scaleTargetRef"]["name"] = NAME
    spec["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["nodeset"] = NAME
    await stage.apply(AUTOSCALERS, NAME, spec=spec)


async def wait_following(stage: ElasticStage, follows: bool) -> None:
    """Wait until the autoscaler reports that it has, or has not, the metric."""

    async def is_reported() -> bool:
        status, _ = await stage.condition(AUTOSCALERS, NAME, "ScalingActive")
        return status == str(follows)

    await eventually(is_reported, "the metric" if follows else "the lack of the metric")


async def test_an_autoscaler_follows_jobs_and_holds_what_it_cannot_know(
    stage: ElasticStage, server: MetricsServer, autoscalers: None
) -> None:
    await stage.apply_policy(mode="External", maxReplicas=2)
    async with server.running():
        await apply_autoscaler(stage)
        await stage.wait_pods(0)
        gang = await stage.submit(tasks=4, minimum_nodes=2, maximum_nodes=2)
        await stage.wait_running(gang)
        assert (await stage.node_set()).spec.replicas == 2
        # Slurm does not respond.
        stage.proxy.closed.add("/slurm")
        await wait_following(stage, False)
        stage.proxy.closed.clear()
        await wait_following(stage, True)
    # The server of the metrics is gone.
    await wait_following(stage, False)
    assert (await stage.node_set()).spec.replicas == 2
    async with server.running():
        await wait_following(stage, True)
        # The operator is gone, and the number that it has computed last counts.
        operator = stage.proxy.operator
        assert operator is not None
        operator.kill()
        await stage.slurm.cancel(gang)
        await server.wait_answers(3)
        assert (await stage.node_set()).spec.replicas == 2
        operator.start()
        await stage.wait_pods(0)
    assert (await stage.condition(AUTOSCALERS, NAME, "AbleToScale"))[0] == "True"
    assert stage.undrained_deletions == []


async def test_an_api_group_of_another_server_is_left_alone(stage: ElasticStage, server: MetricsServer) -> None:
    other = {"namespace": "monitoring", "name": "prometheus-adapter", "port": 443}
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True}
    spec = {"group": GROUP, "version": VERSION, "service": other, **priorities}
    await stage.client.create(API_SERVICES, API_SERVICES.manifest(REGISTRATION, spec=spec))
    REGISTERED.set(1)
    async with server.running():

        async def is_reported() -> bool:
            return REGISTRY.get_sample_value("slinky_external_metrics_registered") == 0

        await eventually(is_reported, "that another server has the group")
        live = await stage.client.get(API_SERVICES, REGISTRATION)
        assert live.spec.service is not None
        assert live.spec.service.name == "prometheus-adapter"
        with pytest.raises(Exception, match=r"service unavailable|503|not found"):
            await stage.client.send("GET", f"/apis/{API}/namespaces/{stage.namespace}/slurm_workers_wanted")
