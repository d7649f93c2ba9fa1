# SPDX-License-Identifier: Apache-2.0
"""Values and releases of the charts of slurm-operator and slurm-bridge work with our charts."""

import base64
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart import incumbent_values
from tests.chart.helm import Helm, Objects, Refused, one
from tests.integration.api.conftest import Kubectl

from slinky import __version__
from slinky.bridge import config
from slinky.bridge.config import DeviceProfile
from slinky.kube import SECRETS, Key, KubeClient
from slinky.lab.kubernetes.bare_plane import BarePlane

#: API groups that the API server of the tests does not serve.
UNSERVED = ("cert-manager.io/v1",)


def dry_run(kubectl: Kubectl, objects: Objects, space: str) -> None:
    """Require that the API server accepts all objects, without storing them."""
    ours = [item for item in objects if item["apiVersion"] not in UNSERVED]
    text = yaml.safe_dump_all(ours)
    done = kubectl(
        "apply", "--server-side", "--validate=strict", "--dry-run=server", "-n", space, "-f", "-", input=text
    )
    assert done.returncode == 0, done.stderr


def process(objects: Objects, name: str) -> dict[str, Any]:
    container: dict[str, Any] = one(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]
    return container


async def test_every_value_of_the_operators_chart(kubectl: Kubectl, helm: Helm, space: str) -> None:
    values = yaml.safe_load(incumbent_values.OPERATOR)
    values["operator"]["namespaces"] = values["webhook"]["namespaces"] = space
    objects = helm.render("slurm-operator", values, "slurm-operator", space)
    dry_run(kubectl, objects, space)
    operator, webhook = process(objects, "slurm-operator"), process(objects, "slurm-operator-webhook")
    assert operator["image"] == f"registry.example/slinky:{__version__}"
    assert webhook["image"].startswith("registry.example/slinky@sha256:")
    assert operator["imagePullPolicy"] == webhook["imagePullPolicy"] == "IfNotPresent"
    assert {"--log-level=debug", "--metrics-addr=:8080", "--metrics-secure", f"--namespaces={space}"} <= set(
        operator["args"]
    )
    assert "--leader-elect" not in operator["args"]
    for entry in one(objects, "ValidatingWebhookConfiguration")["webhooks"]:
        assert (entry["failurePolicy"], entry["matchPolicy"]) == ("Ignore", "Exact")


def test_null_means_the_default_of_the_process(helm: Helm) -> None:
    none = dict.fromkeys(("healthPort", "metricsPort", "logLevel", "nodesetWorkers", "pdb", "resources"))
    objects = helm.render("slurm-operator", {"operator": none, "webhook": {"serverPort": None}}, "slurm-operator")
    flags = {flag.partition("=")[0]: flag.partition("=")[2] for flag in process(objects, "slurm-operator")["args"]}
    assert (flags["--health-addr"], flags["--metrics-addr"], flags["--log-level"]) == (":8081", "0", "info")
    assert "--nodeset-workers" not in flags
    assert "--server-addr=:9443" in process(objects, "slurm-operator-webhook")["args"]


def test_the_default_of_one_replica_becomes_two_with_leader_election(helm: Helm) -> None:
    objects = helm.render("slurm-operator", {"operator": {"leaderElection": False}}, "slurm-operator")
    assert one(objects, "Deployment", "slurm-operator")["spec"]["replicas"] == 2
    assert "--leader-elect" in process(objects, "slurm-operator")["args"]


async def test_every_value_of_the_clusters_chart(kubectl: Kubectl, helm: Helm, space: str) -> None:
    objects = helm.render("slurm", yaml.safe_load(incumbent_values.CLUSTER), space=space)
    dry_run(kubectl, objects, space)
    spec = one(objects, "Controller")["spec"]
    assert spec["slurmKeyRef"] == {"name": "my-slurm-key", "key": "my.key"}
    assert one(objects, "Secret", "my-slurm-key")["metadata"]["annotations"] == {
        "slinky.slurm.net/generate-keys": "my.key",
        "helm.sh/resource-policy": "keep",
    }
    assert spec["persistence"]["storageClassName"] == ""
    # What is empty is left out: slurmctld cannot read a key without a value.
    assert spec["extraConf"].splitlines()[:3] == [
        "MinJobAge=2",
        "SchedulerParameters=bf_continue,defer",
        "SlurmctldDebug=debug2",
    ]
    other = one(objects, "NodeSet", "slurm-worker-other")["spec"]
    assert other["extraConf"] == "Features=a,b Gres=gpu:1 Weight=0"
    assert other["partition"]["config"] == "MaxTime=UNLIMITED OverSubscribe=NO State=UP"
    assert "prolog-90-dcgm.sh" in one(objects, "ConfigMap", "slurm-prolog-scripts")["data"]


def test_empty_sections_are_switched_off(helm: Helm) -> None:
    empty = (
        "priorityClass",
        "slurmKey",
        "jwtKey",
        "jwksKeys",
        "vendor",
        "nodesets",
        "loginsets",
        "partitions",
        "tokens",
    )
    objects = helm.render("slurm", {**dict.fromkeys(empty), "restapi": {"pdb": None}, "controller": {"metrics": None}})
    installed = [item for item in objects if "helm.sh/hook" not in item["metadata"].get("annotations", {})]
    assert [item["kind"] for item in installed] == ["Secret", "Secret", "Controller", "RestApi"]
    sections: dict[str, Any] = {"admission": {"pdb": None, "tls": None, "image": None}, "controllers": None}
    assert one(helm.render("slurm-bridge", sections), "PodDisruptionBudget")


async def test_every_value_of_the_bridges_chart(kubectl: Kubectl, helm: Helm, space: str) -> None:
    objects = helm.render("slurm-bridge", yaml.safe_load(incumbent_values.BRIDGE), "slurm-bridge", space)
    dry_run(kubectl, objects, space)
    settings, unknown = config.parse(one(objects, "ConfigMap")["data"]["config.yaml"])
    assert not unknown
    assert settings.device_profiles[1] == DeviceProfile(driver="dra.net", gres="nic", type="rdma")
    assert process(objects, "slurm-bridge-scheduler")["image"] == f"registry.example/slinky:{__version__}"
    assert process(objects, "slurm-bridge-admission")["image"] == "registry.example/doorkeeper:2"
    assert process(objects, "slurm-bridge-admission")["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("none", [[], None], ids=str)
async def test_a_bridge_that_manages_no_namespace(kubectl: Kubectl, helm: Helm, space: str, none: Any) -> None:
    objects = helm.render("slurm-bridge", {"admission": {"managedNamespaces": none}}, "slurm-bridge", space)
    dry_run(kubectl, objects, space)
    assert [hook["name"] for hook in one(objects, "MutatingWebhookConfiguration")["webhooks"]] == [
        "named.pods.slinky.slurm.net"
    ]


# --- releases


def deployment(name: str, label: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": label, "app.kubernetes.io/instance": "{{ .Release.Name }}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def secret(name: str, key: str) -> dict[str, Any]:
    data = {key: base64.b64encode(b"sesame").decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "immutable": True, "data": data}


Before = Callable[..., None]


@pytest.fixture(params=["true", "false"], ids=["as Helm 4", "as Helm 3"])
def before(
    request: pytest.FixtureRequest, plane: BarePlane, kubectl: Kubectl, helm: Helm, tmp_path: Path
) -> Iterator[Before]:
    """Installs a release with the objects of another chart that could break an upgrade to ours.

    Webhook configurations that the upgrade adds are deleted after the test, because no webhook runs.
    """
    releases: list[str] = []

    def install(chart: str, release: str, space: str, *objects: dict[str, Any]) -> None:
        (tmp_path / "templates").mkdir()
        (tmp_path / "Chart.yaml").write_text(f"{{apiVersion: v2, name: {chart}, version: 1.2.1}}")
        (tmp_path / "templates/all.yaml").write_text(yaml.safe_dump_all(objects))
        way = f"--server-side={request.param}"
        helm.into(plane.kubeconfig, "install", str(tmp_path), way, release=release, space=space)
        releases.append(release)

    yield install
    for release in releases:
        called = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        kubectl("delete", called, "-l", f"app.kubernetes.io/instance={release}")


@pytest.mark.parametrize(
    ("chart", "first", "second"),
    [("slurm-operator", "", "webhook"), ("slurm-bridge", "scheduler", "admission")],
)
async def test_a_release_of_another_chart_is_upgraded_in_place(
    plane: BarePlane, kubectl: Kubectl, helm: Helm, space: str, before: Before, chart: str, first: str, second: str
) -> None:
    release = f"{chart}-{secrets.token_hex(3)}"
    parts = [f"-{part}" if part else "" for part in (first, second)]
    before(chart, release, space, *(deployment(f"{release}{part}", f"{chart}{part}") for part in parts))
    # Secrets that cert-manager has created are not ours.
    kubectl("create", "secret", "generic", "slurm-operator-webhook-ca", "-n", space)
    words = ("--set", "certManager.secretName=slurm-operator-webhook-tls") if chart == "slurm-operator" else ()
    helm.into(plane.kubeconfig, "upgrade", chart, *words, release=release, space=space)
    images = "jsonpath={.items[*].spec.template.spec.containers[0].image}"
    listed = kubectl("get", "deployments", "-n", space, "-o", images)
    assert set(listed.stdout.split()) == {f"{helm.registry}/slinky:{__version__}"}


async def test_the_keys_of_another_chart_survive_the_upgrade_of_a_cluster(
    client: KubeClient, plane: BarePlane, kubectl: Kubectl, helm: Helm, space: str, before: Before
) -> None:
    names = {"slurm-auth-slurm": "slurm.key", "slurm-auth-jwt": "jwt.key"}
    before("slurm", "slurm", space, *(secret(*pair) for pair in names.items()))
    with pytest.raises(Refused, match="immutable"):
        helm.into(plane.kubeconfig, "upgrade", "slurm", space=space)
    kubectl("annotate", "secret", "-n", space, *names, "helm.sh/resource-policy=keep")
    words = [
        word
        for field, name in zip(("slurmKey", "jwtKey"), names, strict=True)
        for word in ("--set", f"{field}.create=false", "--set", f"{field}.secretRef.name={name}")
    ]
    helm.into(plane.kubeconfig, "upgrade", "slurm", *words, space=space)
    for name, key in names.items():
        assert (await client.get(SECRETS, Key(space, name))).data == {key: b"sesame"}
    reference = kubectl("get", "controller", "slurm", "-n", space, "-o", "jsonpath={.spec.slurmKeyRef}")
    assert reference.stdout == '{"key":"slurm.key","name":"slurm-auth-slurm"}'
