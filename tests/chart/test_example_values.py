# SPDX-License-Identifier: Apache-2.0
"""A working cluster needs few values, and every example is one that the API server takes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import Helm, one
from tests.integration.api.conftest import Kubectl
from tests.support.waiting import until

from slinky import __version__
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.slurm.conf.topology import parse_topologies

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES = EXAMPLES / "operator/values.yaml"
GROUPS = ("jobset-crds.yaml", "lws-crds.yaml", "podgroup-crds.yaml")


async def test_a_whole_cluster_takes_less_than_forty_lines(kubectl: Kubectl, helm: Helm, space: str) -> None:
    assert len(VALUES.read_text().splitlines()) < 40
    objects = helm.render("slurm", yaml.safe_load(VALUES.read_text()), space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    assert "PartitionName=all Nodes=ALL" in one(objects, "Controller")["spec"]["extraConf"]


PRESETS = {path.stem: yaml.safe_load(path.read_text()) for path in (EXAMPLES / "operator/presets").glob("*.yaml")}


@pytest.mark.parametrize("preset", sorted(PRESETS))
async def test_a_preset_is_a_whole_cluster(kubectl: Kubectl, helm: Helm, space: str, preset: str) -> None:
    objects = helm.render("slurm", PRESETS[preset], space=space)
    done = kubectl(
        "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-", input=yaml.safe_dump_all(objects)
    )
    assert done.returncode == 0, done.stderr
    assert {"Controller", "RestApi", "NodeSet"} <= {item["kind"] for item in objects}


async def test_the_values_for_pmix_name_images_that_have_it(kubectl: Kubectl, helm: Helm, space: str) -> None:
    objects = helm.render("slurm", yaml.safe_load((EXAMPLES / "operator/pmix-values.yaml").read_text()), space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    found = {
        container: one(objects, kind)["spec"][container]["image"]
        for kind, container in {"Controller": "slurmctld", "NodeSet": "slurmd", "LoginSet": "login"}.items()
    }
    assert found == {name: f"registry.example/{name}-pmix:26.05" for name in found}
    assert "MpiDefault=pmix" in one(objects, "Controller")["spec"]["extraConf"]
    assert one(objects, "ConfigMap", "slurm-config-extra")["data"] == {"mpi.conf": "PMIxDirectConn=yes\n"}


def read_all(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "gitops" / name).read_text()))


def test_the_example_for_argo_cd_installs_our_charts(helm: Helm) -> None:
    for item in read_all("argocd.yaml"):
        source = item["spec"]["source"]
        assert source["targetRevision"] == __version__
        assert helm.render(source["chart"], source["helm"]["valuesObject"])


def test_the_example_for_flux_installs_our_charts(helm: Helm) -> None:
    for item in read_all("flux.yaml")[1:]:
        source = item["spec"]["chart"]["spec"]
        assert source["version"] == __version__
        assert helm.render(source["chart"], item["spec"]["values"])


async def test_the_cluster_for_hybrid_nodes_has_one_worker_per_node_that_requests_little(
    kubectl: Kubectl, helm: Helm, space: str
) -> None:
    values = yaml.safe_load((EXAMPLES / "bridge/hybrid-values.yaml").read_text())
    objects = helm.render("slurm", values, space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    workers = one(objects, "NodeSet")["spec"]
    assert workers["scalingMode"] == "DaemonSet"
    assert workers["slurmd"]["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}}


async def test_the_example_of_a_topology_names_no_host(kubectl: Kubectl, helm: Helm, space: str) -> None:
    values = yaml.safe_load((EXAMPLES / "operator/topology-values.yaml").read_text())
    objects = helm.render("slurm", values, space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    fabric, nvl = parse_topologies(one(objects, "ConfigMap")["data"]["topology.yaml"])
    assert [switch.name for switch in fabric.switches] == ["spine", "leaf1", "leaf2"]
    assert [(block.name, block.nodes) for block in nvl.blocks] == [("b1", ""), ("b2", "")]
    assert "TopologyParam=BlockAsNodeRank" in one(objects, "Controller")["spec"]["extraConf"]
    assert "Topology=nvl" in one(objects, "NodeSet")["spec"]["partition"]["config"]


async def test_workers_of_a_compute_domain_claim_its_channels(kubectl: Kubectl, helm: Helm, space: str) -> None:
    values = yaml.safe_load((EXAMPLES / "operator/imex-values.yaml").read_text())
    objects = helm.render("slurm", values, space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    assert "SwitchType=switch/nvidia_imex" in one(objects, "Controller")["spec"]["extraConf"]
    workers = one(objects, "NodeSet")["spec"]
    (claim,) = workers["template"]["spec"]["resourceClaims"]
    assert claim == {"name": "imex", "resourceClaimTemplateName": "slurm-imex"}
    assert workers["slurmd"]["resources"]["claims"] == [{"name": claim["name"]}]


@pytest.fixture(scope="module")
def grouping(plane: BarePlane, kubectl: Kubectl) -> None:
    """The kinds that make gangs, as their makers define them."""
    for name in GROUPS:
        path = str(plane.kubectl.parent.parent / "manifests" / name)
        assert kubectl("apply", "--server-side", "-f", path).returncode == 0
        until(partial(is_established, kubectl, path), f"the kinds of {name}")


def is_established(kubectl: Kubectl, path: str) -> bool:
    """Whether the kinds of a file can be used; `kubectl wait` fails if a definition has no conditions yet."""
    return kubectl("wait", "--for=condition=Established", "--timeout=50s", "-f", path).returncode == 0


MANIFESTS = sorted(path for path in (EXAMPLES / "bridge").glob("*.yaml") if "values" not in path.name)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
async def test_an_example_of_the_bridge_applies(kubectl: Kubectl, grouping: None, space: str, path: Path) -> None:
    kubectl("create", "serviceaccount", "default", "-n", space)
    done = kubectl("apply", "--validate=strict", "-n", space, "-f", str(path))
    assert done.returncode == 0, done.stderr
