# SPDX-License-Identifier: Apache-2.0
"""A real image registry: TLS by an authority of its own, and a login."""

import base64
import json
import subprocess
from pathlib import Path

import yaml
from tests.support.waiting import until

from slinky.lab.kubernetes.bare_plane import WITH_US
from slinky.lab.kubernetes.pki import Authority
from slinky.lab.lab import Lab
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

PORT = 5000
USER, PASSWORD = "site", "pull"
#: The bcrypt hash of the password.
_HASH = "$2y$05$abcdefghijklmnopqrstuumX/UcYPuC1he88jUne9Jeh/nE4LKq6K"


class ImageRegistry:
    """A registry at an address of this machine, such as that in the network of a lab."""

    def __init__(self, address: str, folder: Path, port: int = PORT) -> None:
        self.folder = folder
        self.host = f"{address}:{port}"
        self._program = ArtifactInventory.of().image_registry(Progress(quiet=True))
        self._process: subprocess.Popen[bytes] | None = None
        Authority(folder, "registry-ca").issue("registry", address, hosts=[address])
        (folder / "htpasswd").write_text(f"{USER}:{_HASH}\n")
        (folder / "config.yml").write_text(yaml.safe_dump(self._settings()))

    def start(self) -> None:
        """Serve what the folder holds."""
        with (self.folder / "log").open("wb") as log:
            argv = [*WITH_US, str(self._program), "serve", str(self.folder / "config.yml")]
            self._process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        until(lambda: "listening on" in (self.folder / "log").read_text() or None, "the registry to listen")

    def stop(self) -> None:
        """End it at once, in the middle of whatever it does."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _settings(self) -> dict[str, object]:
        tls = {"certificate": str(self.folder / "registry.crt"), "key": str(self.folder / "registry.key")}
        return {
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}},
            "http": {"addr": self.host, "secret": "test", "tls": tls},
            "auth": {"htpasswd": {"realm": "slinky", "path": str(self.folder / "htpasswd")}},
        }

    @property
    def ca(self) -> Path:
        """The certificate of its authority."""
        return self.folder / "registry-ca.crt"

    def authfile(self, password: str = PASSWORD) -> Path:
        """A file with the login, as `podman login`, `docker login` and `helm registry login` write it."""
        file = self.folder / f"auth-{password}.json"
        login = base64.b64encode(f"{USER}:{password}".encode()).decode()
        file.write_text(json.dumps({"auths": {self.host: {"auth": login}}}))
        return file

    def pull_secret(self, name: str, password: str = PASSWORD) -> dict[str, object]:
        """The Secret with which kubelets log in."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": self.authfile(password).read_text()},
        }

    def requests(self) -> list[str]:
        """The lines of the access log."""
        return [line for line in (self.folder / "log").read_text().splitlines() if "HTTP/" in line]

    def trust(self, lab: Lab, node: str) -> None:
        """Let containerd of a node verify the registry, as an administrator would: with hosts.toml."""
        toml = (
            f'server = "https://{self.host}"\n[host."https://{self.host}"]\n  ca = "/etc/containerd/certs.d/ca.crt"\n'
        )
        files = {f"{self.host}/hosts.toml": toml, "ca.crt": self.ca.read_text()}
        for name, text in files.items():
            script = f"mkdir -p $(dirname /etc/containerd/certs.d/{name}) && cat > /etc/containerd/certs.d/{name}"
            lab.node_machine(node).run(["sh", "-ec", script], input=text)
