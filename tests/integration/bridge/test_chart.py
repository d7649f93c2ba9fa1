# SPDX-License-Identifier: Apache-2.0
"""The chart: a real Helm renders it, a real API server takes it, and its rights are enough and no more."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import Helm, Objects, one, program

from slinky.bridge import config, names, webhook
from slinky.bridge.views import BATCH_JOBS, OUR_PODS
from slinky.kube import Client, Invalid, Key, Resource, Whole, connect
from slinky.lab.pki import Authority
from slinky.lab.plain import PlainPlane, free_port
from slinky.slurm import Client as Slurm

from .scene import Scene, eventually, scene

FAMILIAR = """
schedulerConfig: {schedulerName: my-scheduler, partition: gpu, mcsLabel: kubernetes}
sharedConfig: {slurmRestApi: "http://slurm-restapi.slurm:6820", slurmJwtSecret: slurm-bridge-token}
scheduler: {replicaCount: 2, leaderElect: true, pdb: {enabled: true}, verbosity: 4}
controllers: {replicas: 1, image: {repository: x, tag: y}, verbosity: info, leaderElect: false, pdb: {enabled: true}}
admission:
  managedNamespaces: []
  managedNamespaceSelector: {matchLabels: {bridge: "yes"}}
  certManager: {enabled: true, duration: 43800h, renewBefore: 8760h}
"""
PATHS = {
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Secret": ("v1", "secrets", True),
    "Service": ("v1", "services", True),
    "Deployment": ("apps/v1", "deployments", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False),
}


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program(), tmp_path_factory.mktemp("helm"))


async def apply(client: Client, objects: Objects, *, dry_run: bool = False) -> None:
    for found in objects:
        version, plural, namespaced = PATHS[found["kind"]]
        resource: Resource[Whole] = Resource(version, found["kind"], plural, Whole, namespaced=namespaced)
        await client.apply(resource, found, manager="helm", dry_run=dry_run)


def test_familiar_values_work_unchanged(helm: Helm) -> None:
    objects = helm.render("slurm-bridge", yaml.safe_load(FAMILIAR))
    text = one(objects, "ConfigMap")["data"]["config.yaml"]
    settings, unknown = config.parse(text)
    assert unknown == ()
    assert (settings.scheduler_name, settings.partition, settings.leader_elect) == ("my-scheduler", "gpu", True)
    assert settings.managed_namespace_selector.match_labels == {"bridge": "yes"}
    assert helm.lint("slurm-bridge") == ""


async def test_the_api_server_takes_every_object(helm: Helm, kube: Client) -> None:
    values = {
        "admission": {"certManager": {"enabled": False}, "replicas": 2, "pdb": {"enabled": True}},
        "scheduler": {"replicaCount": 2, "pdb": {"enabled": True}},
    }
    await apply(kube, helm.render("slurm-bridge", values, space="kube-system"), dry_run=True)


@pytest.fixture
async def limited(helm: Helm, kube: Client, plane: PlainPlane, tmp_path: Path) -> AsyncIterator[Client]:
    """A client with the rights that the chart gives to the bridge, and no others."""
    wanted = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    await apply(kube, [o for o in helm.render("slurm-bridge", space="kube-system") if o["kind"] in wanted])
    path = "/api/v1/namespaces/kube-system/serviceaccounts/slurm-slurm-bridge-scheduler/token"
    answer = json.loads(await kube.send("POST", path, body=b'{"spec": {}}'))
    settings = yaml.safe_load(plane.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": answer["status"]["token"]}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(settings))
    async with connect(file, manager="slurm-bridge") as client:
        yield client


async def test_the_rights_of_the_chart_are_enough(kube: Client, limited: Client, ctld: Slurm) -> None:
    async with scene(kube, ctld) as stage:
        everything, stage.client = stage.client, limited
        await stage.start()
        stage.client = everything
        await stage.node()
        await stage.pod()
        await stage.bound()
        job = await stage.job_of()
        await stage.phase("p", "Running")
        await stage.says("p", "Allocated")
        await stage.slurm.cancel(job.job_id)
        await eventually(lambda: _leaving(stage), "the eviction")
        await stage.stopped("p")
        await stage.gone("p")


async def _leaving(stage: Scene) -> bool:
    return (await stage.get()).metadata.deleting


def by_address(manifest: dict[str, Any], port: int, authority: bytes) -> dict[str, Any]:
    """The same configuration, calling a process on this machine."""
    for hook in manifest["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(authority).decode()
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    return manifest


async def test_admission_hands_pods_over_and_leaves_others_alone(
    helm: Helm, kube: Client, ctld: Slurm, plane: PlainPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    authority = Authority(tmp_path, "ca")
    authority.issue("tls", "admission", hosts=["127.0.0.1"])
    async with scene(kube, ctld) as managed, scene(kube, ctld) as other:
        values = {
            "schedulerConfig": {"schedulerName": managed.settings.scheduler_name},
            "admission": {"managedNamespaces": [managed.namespace]},
        }
        objects = helm.render("slurm-bridge", values, release=managed.name, space="kube-system")
        settings, _ = config.parse(one(objects, "ConfigMap")["data"]["config.yaml"])
        port = free_port()
        server = asyncio.create_task(webhook.main(settings, tmp_path, port=port))
        hooks = [o for o in objects if "webhooks" in o]
        try:
            await asyncio.sleep(1)
            bundle = (tmp_path / "ca.crt").read_bytes()
            await apply(kube, [by_address(hook, port, bundle) for hook in hooks])
            plain = managed.manifest("plain")
            plain["spec"].pop("schedulerName")

            async def taken() -> bool:
                found = await kube.create(
                    OUR_PODS, {**plain, "metadata": {**plain["metadata"], "name": None, "generateName": "p-"}}
                )
                return found.spec.scheduler_name == settings.scheduler_name

            await eventually(taken, "the first pod to be handed over")
            elsewhere = other.manifest("q")
            elsewhere["spec"].pop("schedulerName")
            assert (await kube.create(OUR_PODS, elsewhere)).spec.scheduler_name == "default-scheduler"
            with pytest.raises(Invalid, match="set by the scheduler alone"):
                await managed.pod("posing", labels={names.JOB_LABEL: "7"})
            template = {"spec": {**other.manifest("x")["spec"], "restartPolicy": "Never"}}
            meta = {"annotations": {names.OPTION + "timelimit": "soon"}}
            with pytest.raises(Invalid, match="timelimit"):
                key = Key(other.namespace, "j")
                await kube.create(BATCH_JOBS, BATCH_JOBS.manifest(key, metadata=meta, spec={"template": template}))
        finally:
            for hook in hooks:
                version, plural, _ = PATHS[hook["kind"]]
                await kube.send("DELETE", f"/apis/{version}/{plural}/{hook['metadata']['name']}")
            server.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await server
