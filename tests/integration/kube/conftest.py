# SPDX-License-Identifier: Apache-2.0
"""A real etcd and kube-apiserver on loopback, for the tests of `slinky.kube`.

Binaries come from the folder `$SLINKY_KUBE_BIN` (etcd also from `$SLINKY_ETCD` or `PATH`); without them the
tests are skipped.
"""

import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from slinky.kube import NAMESPACES, Client, connect


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def binary(name: str, env: str = "") -> str | None:
    if env and (path := os.environ.get(env)):
        return path
    folder = os.environ.get("SLINKY_KUBE_BIN")
    return shutil.which(name, path=f"{folder}{os.pathsep}{os.environ['PATH']}" if folder else None)


class Plane:
    """etcd and kube-apiserver as child processes."""

    def __init__(self, home: Path, etcd: str, apiserver: str, flags: tuple[str, ...] = ()) -> None:
        self.home = home
        self._etcd, self._apiserver, self._flags = etcd, apiserver, flags
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_port, self._peer_port, self.port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.token = secrets.token_hex(16)
        self.kubeconfig = home / "kubeconfig"
        self.ca = home / "certs" / "apiserver.crt"

    def __enter__(self) -> "Plane":
        key = self.home / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self.home / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        try:
            self._start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plane",
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "admin"}}],
            "clusters": [
                {"name": "plane", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._spawn(
            "etcd",
            [
                self._etcd,
                f"--data-dir={self.home / 'etcd'}",
                "--name=plane",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=plane={peer}",
                "--unsafe-no-fsync",
                "--log-level=error",
            ],
        )
        self._wait("etcd", f"{client}/health")

    def start_apiserver(self) -> None:
        key = self.home / "sa.key"
        self._spawn(
            "apiserver",
            [
                self._apiserver,
                f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--cert-dir={self.home / 'certs'}",
                f"--token-auth-file={self.home / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://plane.test",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
                "--v=0",
                *self._flags,
            ],
        )
        self._wait("apiserver", f"{self.url}/readyz")

    def stop_apiserver(self) -> None:
        self._kill("apiserver")

    def restart_apiserver(self) -> None:
        self.stop_apiserver()
        self.start_apiserver()

    def stop(self) -> None:
        for name in ("apiserver", "etcd"):
            self._kill(name)

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _kill(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _wait(self, name: str, url: str) -> None:
        context = ssl._create_unverified_context()  # noqa: S323
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self._processes[name].poll() is not None:
                break
            try:
                with urllib.request.urlopen(request, context=context, timeout=2) as answer:  # noqa: S310
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)
        tail = (self.home / f"{name}.log").read_text()[-2000:]
        raise RuntimeError(f"{name} did not come up:\n{tail}")


def start_plane(home: Path, *, old: bool = False) -> Plane:
    """A plane; an `old` one has no streaming lists: by an etcd that cannot, if given, or by its gate."""
    apiserver, ancient = binary("kube-apiserver"), os.environ.get("SLINKY_ETCD_OLD") if old else None
    etcd = ancient or binary("etcd", "SLINKY_ETCD")
    if etcd is None or apiserver is None:
        pytest.skip("needs etcd and kube-apiserver; set SLINKY_KUBE_BIN")
    return Plane(home, etcd, apiserver, ("--feature-gates=WatchList=false",) if old and not ancient else ())


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with start_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="session")
async def client(plane: Plane) -> AsyncIterator[Client]:
    async with connect(plane.kubeconfig) as connected:
        yield connected


@pytest.fixture
async def namespace(client: Client) -> str:
    """A namespace of its own for each test; the plane is thrown away, so nobody cleans it up."""
    name = f"t-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name
