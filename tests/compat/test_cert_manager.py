# SPDX-License-Identifier: Apache-2.0
"""`make e2e-cert-manager`: the real cert-manager issues the certificates of both webhooks as the charts ask for them.

The API server calls each webhook by its Service, with the CA bundle that cert-manager has injected. The only change to
what the charts render is the address behind the Services: it is this machine, because there are no nodes.
"""

import base64
import os
import secrets
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from tests.chart.helm import Helm, Objects, one
from tests.integration.api.conftest import Kubectl
from tests.integration.api.manifests import manifest
from tests.support import cert_manager
from tests.support.waiting import until

from slinky.api import crds
from slinky.lab.kubernetes.bare_plane import WITH_US, BarePlane, free_port

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", autouse=True)
def issuer(plane: BarePlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The running cert-manager."""
    with cert_manager.running(plane, tmp_path_factory.mktemp("cert-manager") / "log"):
        yield


class Webhook:
    """A webhook of a chart, as a process on this machine with the certificates that the Secret of the chart has."""

    def __init__(self, kubectl: Kubectl, objects: Objects, deployment: str, folder: Path) -> None:
        self.kubectl, self.folder = kubectl, folder
        found = one(objects, "Deployment", deployment)
        self.name, self.namespace = deployment, found["metadata"]["namespace"]
        pod = found["spec"]["template"]["spec"]
        self.arguments: list[str] = pod["containers"][0]["args"]
        (self.secret,) = [item["secret"]["secretName"] for item in pod["volumes"] if item["name"] == "certificates"]
        self.port = free_port()
        self.objects = [self._reachable(item) for item in objects if item["kind"] != "Deployment"]

    def _reachable(self, item: dict[str, Any]) -> dict[str, Any]:
        """The same object; calls of the webhook lead to this machine."""
        if item["kind"] == "Service" and item["metadata"]["name"] == self.name:
            return {**item, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        for hook in item.get("webhooks", ()):
            hook["clientConfig"]["service"]["port"] = self.port
        return item

    def install(self) -> None:
        """Apply what the chart renders, except for the pods."""
        done = self.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(self.objects))
        assert done.returncode == 0, done.stderr

    def mount(self) -> bytes:
        """Write the data of the Secret into the folder, as a kubelet does; returns the certificate."""
        data = until(self._issued, f"the Secret {self.secret}")
        for name, value in data.items():
            (self.folder / name).write_bytes(base64.b64decode(value))
        return base64.b64decode(data["tls.crt"])

    def _issued(self) -> dict[str, str] | None:
        done = self.kubectl("get", "secret", self.secret, "-n", self.namespace, "-o", "yaml")
        data: dict[str, str] = (yaml.safe_load(done.stdout) or {}).get("data") or {}
        return data if data.get("tls.crt") and data.get("ca.crt") else None

    @contextmanager
    def running(self, kubeconfig: Path, config: Path) -> Iterator[None]:
        """Run the command of the chart."""
        changes = {
            "--server-addr": f"127.0.0.1:{self.port}",
            "--port": str(self.port),
            "--health-addr": f"127.0.0.1:{free_port()}",
            "--certificates": str(self.folder),
            "--config": str(config),
        }
        names = [flag.partition("=")[0] for flag in self.arguments]
        flags = [
            f"{name}={changes[name]}" if name in changes else flag
            for name, flag in zip(names, self.arguments, strict=True)
        ]
        # The chart leaves the port of the bridge's webhook at its default.
        if not {"--server-addr", "--port"} & set(names):
            flags.append(f"--port={self.port}")
        command = [*WITH_US, str(Path(sys.executable).with_name("slinky")), *flags]
        with (self.folder.parent / f"{self.name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "KUBECONFIG": str(kubeconfig)}
            )
            try:
                until(lambda: self.served() != b"", "the listener")
                yield
            finally:
                process.kill()
                process.wait()

    def served(self) -> bytes:
        """The certificate that the webhook presents; empty while it does not listen."""
        try:
            return ssl.get_server_certificate(("127.0.0.1", self.port)).encode()
        except OSError:
            return b""

    def renew(self) -> None:
        """Have cert-manager issue another certificate, and wait until the webhook presents it."""
        before = serial(self.mount())
        self.kubectl("delete", "secret", self.secret, "-n", self.namespace)
        until(lambda: serial(self.mount()) != before, "another certificate")
        until(lambda: serial(self.served()) == serial(self.mount()), "the webhook with its new certificate")


def serial(certificate: bytes) -> int:
    """The serial number of a certificate; that of the first, if there are several."""
    return x509.load_pem_x509_certificate(certificate).serial_number if certificate else 0


@pytest.fixture
def namespace(kubectl: Kubectl) -> str:
    name = f"cm-{secrets.token_hex(3)}"
    assert kubectl("create", "namespace", name).returncode == 0
    return name


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return folder


def test_the_webhook_of_the_operator_serves_with_certificates_of_cert_manager(
    plane: BarePlane,
    kubectl: Kubectl,
    helm: Helm,
    namespace: str,
    certificates: Path,
    tmp_path: Path,
) -> None:
    definitions = yaml.safe_dump_all(crds.DEFINITIONS)
    assert kubectl("apply", "--server-side", "-f", "-", input=definitions).returncode == 0
    objects = helm.render("slurm-operator", {"certManager": {"enabled": True}}, "op", namespace)
    webhook = Webhook(kubectl, objects, "op-slurm-operator-webhook", certificates)
    webhook.install()
    webhook.mount()
    wrong = yaml.safe_dump(manifest("NodeSet", namespace, extraConf="Weight=$(id)"))

    def is_refused() -> bool:
        done = kubectl("create", "--dry-run=server", "-f", "-", input=wrong)
        return "the character '$' is not allowed" in done.stderr

    with webhook.running(plane.kubeconfig, tmp_path / "none"):
        until(is_refused, "a refusal by the webhook")
        webhook.renew()
        until(is_refused, "a refusal with the new certificate")
        right = yaml.safe_dump(manifest("NodeSet", namespace))
        assert kubectl("create", "--dry-run=server", "-f", "-", input=right).returncode == 0


def test_the_webhook_of_the_bridge_serves_with_certificates_of_cert_manager(
    plane: BarePlane,
    kubectl: Kubectl,
    helm: Helm,
    namespace: str,
    certificates: Path,
    tmp_path: Path,
) -> None:
    home = f"{namespace}-home"
    assert kubectl("create", "namespace", home).returncode == 0
    values = {"admission": {"certManager": {"enabled": True}, "managedNamespaces": [namespace]}}
    objects = helm.render("slurm-bridge", values, "br", home)
    webhook = Webhook(kubectl, objects, "br-slurm-bridge-admission", certificates)
    webhook.install()
    webhook.mount()
    config = tmp_path / "config.yaml"
    config.write_text(one(objects, "ConfigMap", "br-slurm-bridge")["data"]["config.yaml"])
    meta = {"name": "p", "namespace": namespace, "annotations": {"slurmjob.slinky.slurm.net/nonsense": "7"}}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    pod = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def is_refused() -> bool:
        return "is not a job option" in kubectl("create", "--dry-run=server", "-f", "-", input=pod).stderr

    with webhook.running(plane.kubeconfig, config):
        until(is_refused, "a refusal by the webhook")
        webhook.renew()
        until(is_refused, "a refusal with the new certificate, which is its own authority")
