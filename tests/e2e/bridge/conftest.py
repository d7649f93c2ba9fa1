# SPDX-License-Identifier: Apache-2.0
"""The bridge in the shared lab, installed by its chart: real kubelets, containers, controllers and Slurm."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.e2e.bridge.bridge_site import BridgeSite
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import KubeClient, connect
from slinky.lab.demo.charts import LabCharts
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm

SCHEDULER, RELEASE, SPACE = "e2e-bridge", "e2e-bridge", "e2e-bridge"
NODES = ("node1", "node2")
MANAGED = "e2e-bridge/managed"
ANNOTATIONS = {names.PARTITIONS_ANNOTATION: "ext", names.TOPOLOGY_ANNOTATION: "default:leaf1"}


def values(lab: Lab) -> dict[str, Any]:
    """Two bridges of which one leads, admission with its own certificates, and the completer."""
    # The bridge runs on the nodes that it taints.
    tolerations = [{"key": names.MANAGED_TAINT, "operator": "Exists"}]
    return {
        "fullnameOverride": RELEASE,
        "scheduler": {"replicaCount": 2, "tolerations": tolerations},
        "schedulerConfig": {"schedulerName": SCHEDULER, "partition": "ext", "mcsLabel": ""},
        "extraConfig": {"taint": "NoSchedule"},
        "admission": {
            "replicas": 1,
            "tolerations": tolerations,
            "managedNamespaces": [],
            "managedNamespaceSelector": {"matchLabels": {MANAGED: "yes"}},
        },
        "sharedConfig": {"slurmRestApi": lab.slurm.url, "slurmJwtSecret": {"name": "token", "key": "jwt"}},
        "completer": {
            "enabled": True,
            "slurmctldHosts": [lab.slurm.address],
            "clusterName": "lab",
        },
    }


@pytest.fixture(scope="module")
async def kube(lab: Lab) -> AsyncIterator[KubeClient]:
    """A client of the lab."""
    async with connect(lab.kubeconfig, manager="slurm-bridge") as client:
        yield client


@pytest.fixture(scope="module")
async def ctld(lab: Lab) -> AsyncIterator[Slurm]:
    """A client of the lab's Slurm."""
    async with Slurm(lab.slurm.url, MintedToken(lambda: lab.slurm.jwt_key, "slurm")) as client:
        yield client


@pytest.fixture(scope="module")
async def bridge(lab: Lab, ctld: Slurm) -> AsyncIterator[str]:
    """The bridge with both nodes in Slurm; its scheduler name. The lab is left as it was."""
    charts = LabCharts(lab)
    charts.load_slinky(Progress(quiet=True))
    lab.kubectl("create", "namespace", SPACE)
    try:
        lab.kubectl("label", "namespace", SPACE, "pod-security.kubernetes.io/enforce=restricted")
        token = f"--from-literal=jwt={lab.slurm.token(lifespan=86400)}"
        lab.kubectl("create", "secret", "generic", "token", "-n", SPACE, token)
        charts.helm("install", RELEASE, "slurm-bridge", SPACE, values(lab))
        lab.kubectl("annotate", "node", *NODES, *(f"{key}={value}" for key, value in ANNOTATIONS.items()))
        lab.kubectl("label", "node", *NODES, f"{names.EXTERNAL_LABEL}=")
        await wait_hosts(ctld, set(NODES))
        yield SCHEDULER
    finally:
        lab.kubectl("label", "node", *NODES, f"{names.EXTERNAL_LABEL}-")
        await wait_hosts(ctld, set())
        charts.uninstall(RELEASE, SPACE)
        lab.kubectl("delete", "namespace", SPACE)
        lab.kubectl("annotate", "node", *NODES, *(f"{key}-" for key in ANNOTATIONS))


async def wait_hosts(ctld: Slurm, expected: set[str]) -> None:
    """Wait until exactly these nodes of the lab are hosts in Slurm."""

    async def registered() -> bool:
        listing = await ctld.nodes()
        hosts = {host.name for host in (listing.items if listing else ())} & set(NODES)
        assert hosts == expected, hosts
        return True

    await eventually(registered, f"hosts {sorted(expected)}")


@pytest.fixture
async def site(lab: Lab, kube: KubeClient, ctld: Slurm, namespace: str, bridge: str) -> AsyncIterator[BridgeSite]:
    """A namespace whose pods are gone afterwards."""
    site = BridgeSite(lab, kube, ctld, namespace, bridge)
    yield site
    lab.kubectl("delete", "pods,jobs,jobsets,leaderworkersets", "--all", "-n", namespace, "--wait=false")
    await site.wait_no_pods()
