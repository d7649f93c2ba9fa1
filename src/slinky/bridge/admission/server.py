# SPDX-License-Identifier: Apache-2.0
"""The admission webhook: serves the rules over TLS and caches the labels of namespaces.

It does not use Slurm, so it works while Slurm is down. The certificates come from a folder, or the webhook creates and
renews them itself, in a Secret, and writes their CA to the webhook configurations.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slinky.bridge.admission import rules
from slinky.bridge.config import BridgeSettings
from slinky.kube import NAMESPACES, Key, KubeClient, Runtime, connect
from slinky.kube.admission import application, serve
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY
from slinky.kube.webhook_certificates import WebhookCertificates, service_dns_names
from slinky.observe import Health


@dataclass(frozen=True, slots=True)
class ManagedCertificates:
    """Certificates that the webhook manages: its Service, the Secret, and the name of the webhook configurations."""

    service: Key
    secret: Key
    configuration: str


async def main(
    settings: BridgeSettings,
    certificates: Path | ManagedCertificates,
    *,
    port: int = 9443,
    health: Health | None = None,
) -> None:
    """Serve until cancelled; `certificates` is a folder with tls.crt and tls.key, or describes managed ones."""
    async with (
        connect(manager="slurm-bridge-admission") as client,
        _certificate_folder(client, certificates, health) as folder,
    ):
        runtime = Runtime(client, health=health)
        namespaces = runtime.cache(NAMESPACES)

        async def labels_of(name: str) -> Mapping[str, str]:
            # A new namespace may not be in the cache yet.
            namespace = namespaces.get(Key("", name)) or await client.find(NAMESPACES, Key("", name))
            return namespace.metadata.labels if namespace else {}

        app = application(rules.handlers(settings, labels_of))
        listening = False
        if health is not None:
            health.add_readiness_check("listener", lambda: None if listening else "not listening yet")
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.run())
            await namespaces.wait_synced(60)
            async with serve(app, folder / CERTIFICATE, folder / PRIVATE_KEY, port=port):
                listening = True
                await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _certificate_folder(
    client: KubeClient, certificates: Path | ManagedCertificates, health: Health | None
) -> AsyncIterator[Path]:
    """The folder of the certificate and its key; managed certificates are renewed in the background."""
    if isinstance(certificates, Path):
        yield certificates
        return
    with tempfile.TemporaryDirectory(prefix="slinky-admission-") as name:
        folder = Path(name)
        managed = WebhookCertificates(
            client,
            certificates.secret,
            folder,
            service_dns_names(certificates.service),
            certificates.configuration,
        )
        if health is not None:
            managed.add_readiness_check(health)
        async with managed.renewing():
            yield folder
