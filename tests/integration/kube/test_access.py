# SPDX-License-Identifier: Apache-2.0
"""Metrics are served to clients that the real API server authorizes."""

import aiohttp
import msgspec
import pytest

from slinky.kube import KubeClient, Object, Resource
from slinky.kube.metrics_auth import serve_metrics
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.observe import Health

pytestmark = pytest.mark.plane

RBAC = "rbac.authorization.k8s.io"


async def token(client: KubeClient, namespace: str, name: str) -> str:
    """A new service account's token."""
    await client.create(Resource("v1", "ServiceAccount", "serviceaccounts", Object), _named(name, namespace))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    found: str = msgspec.json.decode(await client.send("POST", path, body=body))["status"]["token"]
    return found


def _named(name: str, namespace: str = "") -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name, "namespace": namespace}}


async def allow(client: KubeClient, namespace: str, name: str) -> None:
    """Let an account get /metrics."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    role = f"{namespace}-{name}"
    kinds = [Resource(f"{RBAC}/v1", kind, f"{kind.lower()}s", Object, namespaced=False) for kind in ROLES]
    await client.create(kinds[0], {**_named(role), "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    await client.create(kinds[1], {**_named(role), "roleRef": ref, "subjects": subjects})


ROLES = ("ClusterRole", "ClusterRoleBinding")


async def test_metrics_are_served_over_tls_to_authorized_readers(
    plane: BarePlane, client: KubeClient, namespace: str
) -> None:
    stranger, reader = [await token(client, namespace, name) for name in ("stranger", "reader")]
    await allow(client, namespace, "reader")
    server = serve_metrics(Health(), host="127.0.0.1", port=0, kubeconfig=str(plane.kubeconfig))
    async with server as port, aiohttp.ClientSession() as session:

        async def status(path: str = "/metrics", **headers: str) -> int:
            url = f"https://127.0.0.1:{port}{path}"
            async with session.get(url, headers=headers, ssl=False) as answer:
                return answer.status

        assert await status() == 401
        assert await status(Authorization="Bearer made.up.token") == 401
        assert await status(Authorization=f"Bearer {stranger}") == 403
        assert await status(Authorization=f"Bearer {reader}") == 200
        assert await status("/healthz", Authorization=f"Bearer {reader}") == 404
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{port}/metrics")
