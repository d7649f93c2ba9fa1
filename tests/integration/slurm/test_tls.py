# SPDX-License-Identifier: Apache-2.0
"""The real slurmrestd behind `slinky tls-proxy`: clients verify it, and no call fails while certificates change."""

import asyncio
import contextlib
import os
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from tests.support.waiting import eventually
from yarl import URL

from slinky.kube.certificates import (
    CertificateBundle,
    CertificatePair,
    create_authority,
    create_serving_pair,
    renew_bundle,
)
from slinky.kube.tls import trust_files
from slinky.lab.kubernetes.bare_plane import WITH_US, free_port
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken, SlurmClient
from slinky.slurm.errors import SlurmError, TransportError, UntrustedServer
from slinky.slurm.transport.request_transport import TlsContext

HOSTS = ("localhost", "127.0.0.1")
CALLS = 30


def write(path: Path, text: str) -> None:
    """Replace a file as the kubelet does, so that a reader never finds half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)  # noqa: PTH105


class SecuredSlurmrestd:
    """`slinky tls-proxy` in front of slurmrestd, with the files that a pod mounts."""

    def __init__(self, slurm: LabSlurm, folder: Path, *arguments: str) -> None:
        self.port, self._health, self._slurm = free_port(), free_port(), slurm
        self.url, self.ca = f"https://localhost:{self.port}", folder / "ca.crt"
        self._folder = folder
        self.bundle: CertificateBundle = renew_bundle(None, HOSTS, datetime.now(UTC))
        self.publish()
        upstream = URL(slurm.url)
        argv = [sys.executable, "-m", "slinky.cli", "tls-proxy", "--server-addr", f"127.0.0.1:{self.port}"]
        argv += ["--upstream", f"{upstream.host}:{upstream.port}", "--certificates", str(folder), *arguments]
        argv += ["--health-addr", f"127.0.0.1:{self._health}"]
        self._child = subprocess.Popen([*WITH_US, *argv])

    def publish(self) -> None:
        """Write the files of the server and of the clients, in an order in which they can arrive."""
        write(self.ca, self.bundle.ca_bundle)
        write(self._folder / "tls.key", self.bundle.serving.key)
        write(self._folder / "tls.crt", self.bundle.serving.certificate)

    def serve(self, signer: CertificatePair, *authorities: CertificatePair) -> None:
        """Publish these authorities and a new certificate of one of them, as the operator does in a renewal."""
        self.bundle = CertificateBundle(authorities, create_serving_pair(signer, HOSTS, datetime.now(UTC)))
        self.publish()

    async def is_ready(self) -> bool:
        """Whether the proxy serves and slurmrestd accepts connections."""
        assert self._child.poll() is None
        with contextlib.suppress(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self._health}/readyz") as answer,
            ):
                return answer.status == 200
        return False

    def served_serial(self) -> int:
        """The serial number of the certificate that new connections get."""
        pem = ssl.get_server_certificate(("127.0.0.1", self.port))
        return x509.load_pem_x509_certificate(pem.encode()).serial_number

    def client(self, tls: TlsContext | None, url: str = "") -> SlurmClient:
        """A client with a token of a minute."""
        return SlurmClient(url or self.url, MintedToken(lambda: self._slurm.jwt_key, "slurm"), tls=tls)

    def end(self) -> None:
        """End the proxy."""
        self._child.terminate()
        assert self._child.wait(30) == 0


@pytest.fixture
async def secured(slurm: LabSlurm, tmp_path: Path) -> AsyncIterator[SecuredSlurmrestd]:
    secured = SecuredSlurmrestd(slurm, tmp_path)
    try:
        await eventually(secured.is_ready, "readiness of the proxy")
        yield secured
    finally:
        secured.end()


async def test_long_answers_arrive_whole(secured: SecuredSlurmrestd, slurm: LabSlurm) -> None:
    """Longer than what slurmrestd, the proxy and the sockets hold at once."""
    names = set(slurm.add_external_nodes(400, prefix="long"))
    try:
        async with secured.client(trust_files(secured.ca).get) as client:
            for _ in range(5):
                listing = await client.nodes()
                assert listing is not None
                assert {host.name for host in listing.items} >= names
    finally:
        await asyncio.to_thread(slurm.remove_nodes, "long[001-400]")


async def test_no_call_fails_while_authority_and_certificate_are_replaced(
    secured: SecuredSlurmrestd,
) -> None:
    files, calls, done = trust_files(secured.ca), 0, asyncio.Event()

    async def call_without_pause() -> None:
        nonlocal calls
        async with secured.client(files.get) as client:
            while not done.is_set():
                assert await client.nodes()
                calls += 1

    def has_called(before: int) -> bool:
        return calls > before + 10

    async with asyncio.TaskGroup() as tasks:
        calling = [tasks.create_task(call_without_pause()) for _ in range(4)]
        first, second = secured.bundle.authorities[0], create_authority(datetime.now(UTC))
        # Another certificate of the same authority; both authorities are trusted; the new one signs; the old one ends.
        for signer, *authorities in ((first, first), (first, first, second), (second, first, second), (second, second)):
            secured.serve(signer, *authorities)
            await eventually(partial(is_served, secured), "the renewed certificate")
            await eventually(partial(has_called, calls), "calls with the renewed certificate")
        done.set()
        await asyncio.gather(*calling)
    # The withdrawn authority is not trusted any more, in the process that has trusted it.
    secured.serve(first, second)
    await eventually(partial(is_served, secured), "the certificate of the old authority")
    async with secured.client(files.get) as client:
        with pytest.raises(UntrustedServer):
            await client.nodes()


async def is_served(secured: SecuredSlurmrestd) -> bool:
    serial = await asyncio.to_thread(secured.served_serial)
    return serial == secured.bundle.serving.parsed.serial_number


async def test_a_client_verifies_the_server_before_it_sends_its_token(
    secured: SecuredSlurmrestd, slurm: LabSlurm
) -> None:
    stranger = renew_bundle(None, HOSTS, datetime.now(UTC)).ca_bundle
    for context in (ssl.create_default_context(cadata=stranger), None):
        async with secured.client(context) as client:
            with pytest.raises(TransportError, match=r"(?i)certificate"):
                await client.nodes()
    trusted = ssl.create_default_context(cadata=secured.bundle.ca_bundle)
    for name, error in (("another.example", UntrustedServer), ("localhost", None)):
        async with SlurmClient(secured.url, slurm.token(), tls=trusted, tls_name=name) as client:
            with pytest.raises(error) if error else contextlib.nullcontext():
                assert await client.nodes()


async def test_http_is_served_unless_tls_is_required(slurm: LabSlurm, tmp_path: Path) -> None:
    for arguments in ((), ("--required",)):
        secured = SecuredSlurmrestd(slurm, tmp_path, *arguments)
        try:
            await eventually(secured.is_ready, "readiness of the proxy")
            async with secured.client(None, f"http://127.0.0.1:{secured.port}") as client:
                if not arguments:
                    assert await client.nodes()
                else:
                    with pytest.raises(SlurmError, match="requires TLS"):
                        await client.nodes()
        finally:
            secured.end()


async def test_the_cost_of_tls_is_reported(secured: SecuredSlurmrestd, slurm: LabSlurm) -> None:
    """Nothing is asserted about time; the numbers are in the output of a run with `-s`."""
    trusted = ssl.create_default_context(cadata=secured.bundle.ca_bundle)
    direct = SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm"))
    for name, client in {"direct": direct, "with TLS": secured.client(trusted)}.items():
        async with client:
            seconds = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                assert await client.nodes()
                seconds.append(time.perf_counter() - begin)
        print(f"{name}: median {1000 * statistics.median(seconds):.1f} ms, at most {1000 * max(seconds):.1f} ms")
