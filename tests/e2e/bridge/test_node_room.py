# SPDX-License-Identifier: Apache-2.0
"""Pods of the bridge beside a DaemonSet on real kubelets, which reject pods that do not fit."""

from collections.abc import AsyncIterator

import pytest
from tests.e2e.bridge.bridge_site import BridgeSite, condition_text, running, template
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.kube import NODES, Key, Quantity

SHARED = {names.OPTION + "exclusive": "false"}
LABELS = {"app": "daemon"}


@pytest.fixture
async def daemons(site: BridgeSite) -> AsyncIterator[list[WorkloadPod]]:
    """The pods of a DaemonSet that requests a tenth of a CPU on every node."""
    daemon = template(
        "default-scheduler",
        "sleep 600",
        container={"resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}},
        restartPolicy="Always",
        tolerations=[{"operator": "Exists"}],
    )
    spec = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": daemon}}
    site.apply("apps/v1", "DaemonSet", "daemon", spec)
    yield await site.wait_pods(2, running, "of the DaemonSet run")
    site.lab.kubectl("delete", "daemonset", "daemon", "-n", site.namespace)


async def test_a_pod_of_a_whole_node_waits_beside_a_daemon_set(site: BridgeSite, daemons: list[WorkloadPod]) -> None:
    node = await site.kube.get(NODES, Key("", daemons[0].spec.node_name))
    cpus = Quantity.parse(node.status.allocatable["cpu"]).whole()
    whole = {"resources": {"requests": {"cpu": str(cpus)}}}
    site.apply("v1", "Pod", "whole", template(site.scheduler, "sleep 600", container=whole), annotations=SHARED)

    async def waits() -> bool:
        pod = await site.kube.get(OUR_PODS, Key(site.namespace, "whole"))
        text = condition_text(pod)
        assert pod.status.phase == "Pending", (pod.status.phase, pod.status.reason)
        assert text.startswith("InsufficientNodeResources: "), text
        assert f"cpu: {cpus} requested" in text, text
        return not pod.spec.node_name

    await eventually(waits, "the reason why the pod waits")
    small = {"resources": {"requests": {"cpu": "100m"}}}
    site.apply("v1", "Pod", "small", template(site.scheduler, "sleep 600", container=small), annotations=SHARED)

    async def runs() -> bool:
        return running(await site.kube.get(OUR_PODS, Key(site.namespace, "small")))

    await eventually(runs, "a small pod beside the DaemonSet")
    assert await waits()
