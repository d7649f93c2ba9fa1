# SPDX-License-Identifier: Apache-2.0
"""The webhook, called by a real API server over TLS, with certificates that the webhook manages."""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.api.conftest import Kubectl
from tests.integration.api.manifests import manifest
from tests.support.waiting import eventually

from slinky.api import CONTROLLERS, NODE_SETS
from slinky.api.names import metadata
from slinky.kube import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    ApiError,
    Invalid,
    Key,
    KubeClient,
    Unstructured,
)
from slinky.kube.admission import application, serve
from slinky.kube.webhook_certificates import MUTATING, VALIDATING, WebhookCertificates
from slinky.lab.kubernetes.bare_plane import free_port
from slinky.observe import Health, ManualClock
from slinky.webhook.application import BINDING_PATH, RULES, path
from slinky.webhook.server import WebhookSettings, serving

WATCHED = {"slinky-webhook-test": "true"}
HOME = "webhook-home"


def webhook(name: str, url: str, operations: list[str], rule: dict[str, Any], policy: str) -> dict[str, Any]:
    return {
        "name": f"{name}.slinky.slurm.net",
        "clientConfig": {"url": url},
        "rules": [{"operations": operations, **rule}],
        "namespaceSelector": {"matchLabels": WATCHED},
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def configurations(port: int, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    base = f"https://127.0.0.1:{port}"
    ours = {"apiGroups": ["slinky.slurm.net"], "apiVersions": ["v1beta1"]}
    validating = [
        webhook(kind, base + path(kind), ["CREATE", "UPDATE", "DELETE"], {**ours, "resources": [f"{kind}s"]}, "Fail")
        for kind in RULES
    ]
    core = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
    mutating = [webhook("binding", base + BINDING_PATH, ["CREATE"], core, "Ignore")]
    return (
        VALIDATING.manifest(Key("", name), webhooks=validating),
        MUTATING.manifest(Key("", name), webhooks=mutating),
    )


@pytest.fixture(scope="module")
async def served(client: KubeClient, installed: list[Unstructured]) -> AsyncIterator[WebhookSettings]:
    """The webhook on the loopback address, registered with the API server by URL."""
    port, name = free_port(), f"hook-{secrets.token_hex(3)}"
    await client.create(NAMESPACES, {"metadata": {"name": HOME}})
    validating, mutating = configurations(port, name)
    await client.create(VALIDATING, validating)
    await client.create(MUTATING, mutating)
    settings = WebhookSettings(namespace=HOME, configuration=name, hosts=("127.0.0.1",), host="127.0.0.1", port=port)
    health = Health()
    async with serving(settings, health, client):
        assert health.readiness() == {}
        yield settings
        for resource in (VALIDATING, MUTATING):
            await client.delete(resource, Key("", name))


@pytest.fixture
async def watched(client: KubeClient, served: WebhookSettings) -> str:
    name = f"t-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": WATCHED}})

    async def is_called() -> bool:
        try:
            await client.create(NODE_SETS, manifest("NodeSet", name, extraConf="oops"), dry_run=True)
        except ApiError as error:
            return "is not Key=Value" in str(error)
        return False

    await eventually(is_called, "a call of the webhook, which the API server learns of with a delay")
    return name


async def test_a_refusal_names_the_field(client: KubeClient, watched: str) -> None:
    with pytest.raises(Invalid, match=r"spec\.extraConf: the character '\$' is not allowed"):
        await client.create(NODE_SETS, manifest("NodeSet", watched, extraConf="Weight=$(id)"))


async def test_two_node_sets_with_the_same_hosts_are_refused(client: KubeClient, watched: str) -> None:
    same = {"template": {"spec": {"hostname": "gpu-"}}}
    await client.create(NODE_SETS, manifest("NodeSet", watched, "a", **same))
    with pytest.raises(Invalid, match="NodeSet a also uses the prefix 'gpu-' for its Slurm nodes"):
        await client.create(NODE_SETS, manifest("NodeSet", watched, "b", **same))


async def test_a_controller_needs_the_files_it_names(client: KubeClient, watched: str) -> None:
    body = manifest("Controller", watched, configFileRefs=[{"name": "files"}])
    with pytest.raises(Invalid, match="ConfigMap files does not exist"):
        await client.create(CONTROLLERS, body)
    await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(Key(watched, "files"), data={"gres.conf": ""}))
    await client.create(CONTROLLERS, body)


async def test_warnings_reach_the_user(client: KubeClient, kubectl: Kubectl, watched: str) -> None:
    await client.create(CONTROLLERS, manifest("Controller", watched))
    await client.create(NODE_SETS, manifest("NodeSet", watched))
    done = await asyncio.to_thread(kubectl, "delete", "-n", watched, "controller/slurm")
    assert done.returncode == 0
    assert "still referred to by nodeset/slurm" in done.stderr


@pytest.mark.parametrize("kind", ["nodeset", "controller"])
async def test_workers_are_not_ended_by_a_deletion_in_the_foreground(
    client: KubeClient, kubectl: Kubectl, watched: str, kind: str
) -> None:
    await client.create(CONTROLLERS, manifest("Controller", watched))
    await client.create(NODE_SETS, manifest("NodeSet", watched))
    await client.apply_status(NODE_SETS, Key(watched, "slurm"), {"replicas": 2, "desired": 2})
    asked = ("delete", "-n", watched, f"{kind}/slurm", "--wait=false")
    refused = await asyncio.to_thread(kubectl, *asked, "--cascade=foreground")
    assert refused.returncode != 0
    assert "would delete 2 workers at once" in refused.stderr
    done = await asyncio.to_thread(kubectl, *asked)
    assert done.returncode == 0


async def test_a_worker_has_its_topology_from_the_moment_it_is_bound(client: KubeClient, watched: str) -> None:
    node = f"node-{secrets.token_hex(3)}"
    await client.create(NODES, {"metadata": {"name": node, "annotations": {metadata.TOPOLOGY: "default:s1"}}})
    await client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(watched, "default")))
    for name, app in (("worker", "slurmd"), ("other", "nginx")):
        labels = {metadata.APP_NAME: app}
        spec = {"containers": [{"name": "a", "image": "a"}]}
        await client.create(PODS, PODS.manifest(Key(watched, name), metadata={"labels": labels}, spec=spec))
        await client.bind(Key(watched, name), node)
    worker = await client.get(PODS, Key(watched, "worker"))
    other = await client.get(PODS, Key(watched, "other"))
    assert worker.spec.node_name == other.spec.node_name == node
    assert worker.metadata.annotations[metadata.TOPOLOGY] == "default:s1"
    assert metadata.TOPOLOGY not in other.metadata.annotations


async def test_two_replicas_agree_on_one_certificate(
    client: KubeClient, served: WebhookSettings, tmp_path: Path
) -> None:
    secret, clock = Key(HOME, f"c-{secrets.token_hex(3)}"), ManualClock()
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    certificates = [WebhookCertificates(client, secret, folder, ("h",), "nothing", clock) for folder in folders]
    await asyncio.gather(*(certificate.renew() for certificate in certificates))
    texts = {replica.certificate.read_text() for replica in certificates}
    assert len(texts) == 1
    stored = await client.get(SECRETS, secret)
    assert stored.data["tls.crt"].decode() in texts
    version = stored.metadata.resource_version
    await certificates[0].renew()
    assert (await client.get(SECRETS, secret)).metadata.resource_version == version


async def test_a_renewed_certificate_is_served_without_a_restart(
    client: KubeClient, served: WebhookSettings, tmp_path: Path
) -> None:
    clock = ManualClock()
    certificate = WebhookCertificates(
        client, Key(HOME, f"c-{secrets.token_hex(3)}"), tmp_path, ("127.0.0.1",), "nothing", clock
    )
    await certificate.renew()
    async with serve(
        application({}),
        certificate.certificate,
        certificate.private_key,
        host="127.0.0.1",
        port=0,
        reload_interval=0.05,
    ) as port:
        first = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
        await clock.advance(70 * 86400)
        await certificate.renew()

        async def is_served() -> bool:
            now = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
            return now != first and now == certificate.certificate.read_text()

        await eventually(is_served, "the renewed certificate")
