# SPDX-License-Identifier: Apache-2.0
"""A bare control plane: etcd and kube-apiserver on loopback, without root and nodes, ready in about three seconds.

For tests that need only the real API. Both processes end with the process that started them.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.kubernetes import control_plane, pki
from slinky.lab.kubernetes.api import Api
from slinky.lab.machine.machine import until
from slinky.lab.machine.scratch_folder import scratch_folder
from slinky.lab.prepare.inventory import ArtifactInventory

#: Prefix of a command that the kernel kills when its parent process ends.
WITH_US = ("setpriv", "--pdeathsig", "KILL")


#: The addresses of pods, of which there are none.
UNUSED = "10.99.0.0/16"


class BarePlane:
    """One API server with its etcd; use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        inventory: ArtifactInventory,
        minor: str,
        port: int | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        store, artifacts = inventory.store, inventory.artifacts
        self.folder = folder
        self.token = secrets.token_hex(16)
        self._flags = flags
        self.plane = control_plane.ControlPlane(
            binaries=store.require(artifacts["programs"]) / "bin",
            etcd_binary=store.require(artifacts["machine"]) / "tree/usr/bin/etcd",
            pki=folder / "pki",
            data=folder,
            configs=folder,
            address="127.0.0.1",
            port=port or free_port(),
            etcd_port=free_port(),
            minor=inventory.release.minor,
        )
        #: The same control plane with the API server of another version; its other programs are those of the lab.
        self._server = replace(self.plane, binaries=store.require(inventory.api_server(minor)) / "bin", minor=minor)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    @contextlib.contextmanager
    def running(cls, minor: str = "1.36", port: int | None = None, flags: Sequence[str] = ()) -> Iterator["BarePlane"]:
        """A control plane for the duration of the block, on a free port by default."""
        with scratch_folder("slinky-plane-") as folder:
            plane = cls(folder, ArtifactInventory.of(), minor, port, flags)
            try:
                plane.renew_certificates()
                plane.start_etcd()
                plane.start_apiserver()
                yield plane
            finally:
                plane.close()

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.plane.url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.plane.kubeconfig("admin")

    @property
    def kubectl(self) -> Path:
        """The kubectl of the lab."""
        return self.plane.binaries / "kubectl"

    @property
    def ca(self) -> Path:
        """The certificate of the authority that signs the server's."""
        return self.plane.pki / "ca.crt"

    def start_etcd(self) -> None:
        """Start etcd with its existing data."""
        self._start("etcd", control_plane.etcd(self.plane))

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        tokens = self.folder / "tokens.csv"
        pki.private(tokens, f'{self.token},admin,admin,"system:masters"\n'.encode())
        # No controller creates service accounts here, and pods that do not run need none.
        extra = [f"--token-auth-file={tokens}", "--disable-admission-plugins=ServiceAccount", *self._flags]
        self._start("kube-apiserver", [*control_plane.apiserver(self._server, nodes=False), *extra])
        api = Api(self.kubeconfig)

        def ready() -> bool:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise LabError(f"{name} ended with {process.returncode}:\n{self.tail(name)}")
            return api.ready()

        until(ready, "the API server", 240, lambda: self.tail("kube-apiserver"))

    @contextlib.contextmanager
    def controllers(self, *names: str, flags: Sequence[str] = ()) -> Iterator[None]:
        """Run these controllers of the kube-controller-manager for the duration of the block."""
        argv = control_plane.controller_manager(self.plane, pods=UNUSED)
        own = (f"--controllers={','.join(names)}", f"--secure-port={free_port()}")
        self._start("kube-controller-manager", [*argv, *own, *flags])
        try:
            yield
        finally:
            self._stop("kube-controller-manager", signal.SIGKILL)

    def stop_apiserver(self, number: int = signal.SIGKILL) -> None:
        """End the API server; with SIGTERM and open watches this takes a minute."""
        self._stop("kube-apiserver", number)

    def restart_apiserver(self) -> None:
        """Stop and start the API server; stored objects are kept."""
        self.stop_apiserver()
        self.start_apiserver()

    def tail(self, name: str, lines: int = 10) -> str:
        """The last lines of a log."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """End everything."""
        for name in list(self._processes):
            self._stop(name, signal.SIGKILL)

    def renew_certificates(self) -> None:
        """A new authority and new certificates; the server takes them at its next start."""
        self.plane.pki.mkdir(exist_ok=True)
        if not (self.plane.pki / "sa.key").exists():
            pki.service_account_keys(self.plane.pki)
        authority = pki.Authority(self.plane.pki, "ca")
        authority.issue("apiserver", "kube-apiserver", hosts=self.plane.server_hosts)
        authority.issue("admin", "kubernetes-admin", "system:masters")
        authority.issue("controller-manager", "system:kube-controller-manager")
        for name in ("admin", "controller-manager"):
            authority.kubeconfig(self.plane.kubeconfig(name), name, self.url)
        pki.Authority(self.plane.pki, "front-proxy-ca").issue("front-proxy-client", "front-proxy-client")

    def _start(self, name: str, argv: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*WITH_US, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **control_plane.ENVIRONMENT},
            )

    def _stop(self, name: str, number: int) -> None:
        process = self._processes.pop(name, None)
        if process:
            process.send_signal(number)
            process.wait()


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
