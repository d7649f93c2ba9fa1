# SPDX-License-Identifier: Apache-2.0
"""The Role that the chart gives the page is what the page needs, on a real API server."""

import asyncio
from dataclasses import replace

import msgspec
import yaml
from tests.chart.helm import Helm, one
from tests.integration.api.conftest import Kubectl
from tests.support.waiting import eventually

from slinky.api.nodeset import NODE_SETS
from slinky.kube import Key, KubeClient, find_access
from slinky.kube.aio_transport import AioTransport
from slinky.kube.auth import StaticBearerToken
from slinky.kube.tls import NO_PEM
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.web.nodeset_feed import NodeSetFeed


async def account_token(client: KubeClient, space: str, name: str) -> str:
    """A token of a service account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token"
    answer = await client.send("POST", path, body=msgspec.json.encode(request))
    return str(msgspec.json.decode(answer)["status"]["token"])


async def test_the_page_names_a_missing_right_and_follows_nodesets_with_its_role(
    plane: BarePlane, client: KubeClient, kubectl: Kubectl, helm: Helm, space: str
) -> None:
    objects = helm.render("slurm", {"exporter": {"enabled": True, "web": {"enabled": True}}}, space=space)
    account, controller = one(objects, "ServiceAccount"), one(objects, "Controller")["metadata"]["name"]
    assert kubectl("apply", "-f", "-", input=yaml.safe_dump(account)).returncode == 0
    token = await account_token(client, space, account["metadata"]["name"])
    own = replace(find_access(plane.kubeconfig), tokens=StaticBearerToken(token), certificate=NO_PEM, key=NO_PEM)
    transport = AioTransport(own)
    feed = NodeSetFeed(KubeClient(transport), Key(space, controller))
    task = asyncio.create_task(feed.run())
    try:
        await eventually(lambda: f"in the namespace {space}" in feed.known().fault, "the missing right")
        rights = yaml.safe_dump_all([one(objects, "Role"), one(objects, "RoleBinding")])
        assert kubectl("apply", "-f", "-", input=rights).returncode == 0
        await eventually(lambda: feed.known().read and not feed.known().fault, "the first list")
        for name, owner in (("mine", controller), ("foreign", "other")):
            spec = {"controllerRef": {"name": owner}}
            await client.create(NODE_SETS, NODE_SETS.manifest(Key(space, name), spec=spec))
        await eventually(lambda: [item.metadata.name for item in feed.known().items] == ["mine"], "the NodeSet")
        await client.delete(NODE_SETS, Key(space, "mine"))
        await eventually(lambda: not feed.known().items, "its deletion")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()
