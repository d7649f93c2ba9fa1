# SPDX-License-Identifier: Apache-2.0
"""What `slinky doctor` finds on a real API server: before an installation, with few rights, and after it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.support.command_line import slinky
from tests.support.kubernetes_minor import MINOR
from tests.support.waiting import eventually

from slinky.api import crds
from slinky.api.controller import CONTROLLERS
from slinky.kube import CUSTOM_RESOURCES, NAMESPACES, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane

#: An API server without kubelets, storage and aggregation has these findings before an installation.
BARE = [("storage", "warning"), ("installation", "note")]
#: What an installation does not change: the registration of metrics, and a version that is too old for the bridge.
LASTING = ("external metrics", "version") if MINOR == "1.33" else ("external metrics",)


def findings(kubeconfig: Path, code: int, *argv: str) -> list[dict[str, str]]:
    done = slinky("doctor", "--kubeconfig", str(kubeconfig), "-o", "json", *argv)
    assert done.returncode == code, (done.stdout, done.stderr)
    return list(json.loads(done.stdout))


def names(found: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(finding["check"], finding["severity"]) for finding in found if finding["check"] not in LASTING]


async def kubeconfig_of_account(client: KubeClient, plane: BarePlane, folder: Path) -> Path:
    """The kubeconfig of an account without any right."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    await client.send("POST", path, body=b'{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"guest"}}')
    request = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
    token = msgspec.json.decode(await client.send("POST", f"{path}/guest/token", body=request))["status"]["token"]
    config: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = folder / "guest.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


async def test_before_and_after_an_installation(own_plane: BarePlane, tmp_path: Path) -> None:
    async with connect(own_plane.kubeconfig) as client:
        assert names(findings(own_plane.kubeconfig, 0)) == BARE
        guest = await kubeconfig_of_account(client, own_plane, tmp_path)
        denied = findings(guest, 1)
        assert "customresourcedefinitions.apiextensions.k8s.io" in denied[0]["text"]
        assert [finding["text"] for finding in denied if "nodes is forbidden" in finding["text"]]

        for definition in crds.DEFINITIONS:
            await client.create(CUSTOM_RESOURCES, definition)

        async def installed() -> bool:
            return not [name for name in names(findings(own_plane.kubeconfig, 0)) if name in BARE]

        await eventually(installed, "the definitions")
        await client.create(NAMESPACES, {"metadata": {"name": "slurm"}})
        key, secret = Key("slurm", "slurm"), {"name": "keys", "key": "key"}
        await client.create(CONTROLLERS, CONTROLLERS.manifest(key, spec={"slurmKeyRef": secret, "jwtKeyRef": secret}))
        degraded = {"type": "Degraded", "status": "True", "reason": "ImagePullFailed", "message": "no such image"}
        await client.apply_status(
            CONTROLLERS, key, {"conditions": [{**degraded, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        )
        texts = [finding["text"] for finding in findings(own_plane.kubeconfig, 1)]
        assert "There are Slurm clusters, but no Deployment of the operator." in texts
        assert "The Controller slurm/slurm is degraded: ImagePullFailed: no such image." in texts
        done = slinky("doctor", "--kubeconfig", str(own_plane.kubeconfig), "-c", "slurm")
        assert (done.returncode, "degraded" in done.stdout, "has no RestApi" in done.stderr) == (1, True, True)
