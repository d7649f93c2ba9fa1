# SPDX-License-Identifier: Apache-2.0
"""Blocking calls to the API server, to start and inspect a lab.

Programs use `slinky.kube`; this module keeps the lab independent of it.
"""

import base64
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from slinky.lab.errors import LabError


class Api:
    """The API server behind a kubeconfig that holds a client certificate."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url: str = cluster["server"]
        decoded = {name: base64.b64decode(value) for name, value in (cluster | user).items() if name.endswith("-data")}
        self._tls = ssl.create_default_context(cadata=decoded["certificate-authority-data"].decode())
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(decoded["client-certificate-data"] + decoded["client-key-data"])
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def get(self, path: str) -> Any:
        """GET a path; the text if the response is not JSON."""
        return self.call("GET", path)

    def apply(self, path: str, manifest: dict[str, Any]) -> None:
        """Server-side apply of one object at its own path."""
        self.call(
            "PATCH",
            f"{path}?fieldManager=slinky-lab&force=true",
            json.dumps(manifest).encode(),
            "application/apply-patch+yaml",
        )

    def ready(self) -> bool:
        """Whether the server reports that it is ready."""
        try:
            return bool(self.get("/readyz") == "ok")
        except LabError:
            return False

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        """Send one request; any failure is an error that names the path."""
        request = urllib.request.Request(  # noqa: S310 - the URL is our own kubeconfig's
            self.url + path, data=body, method=method, headers={"Content-Type": kind, "Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=15, context=self._tls) as response:  # noqa: S310 - as above
                text = response.read().decode()
        except urllib.error.HTTPError as problem:
            raise LabError(f"{method} {path}: {problem.code}: {problem.read().decode()[:500]}") from problem
        except OSError as problem:
            raise LabError(f"{method} {path}: {problem}") from problem
        return json.loads(text) if text.startswith(("{", "[")) else text
