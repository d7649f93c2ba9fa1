# SPDX-License-Identifier: Apache-2.0
"""Serves the admission rules over TLS, with the namespaces' labels from a cache.

It knows nothing of Slurm, so it answers whatever becomes of Slurm. Its certificates are somebody's whose folder is
followed, or its own, kept in a Secret and in the trust of the webhook configurations.
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
from slinky.kube.webhook_certificates import CERTIFICATE, PRIVATE_KEY, WebhookCertificates, service_dns_names
from slinky.observe import Health


@dataclass(frozen=True)
class ManagedCertificates:
    """Certificates of our own: for which Service, in which Secret, trusted by which configurations."""

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
    """Answer until cancelled; `certificates` is a folder that holds tls.crt and tls.key, or how to keep them."""
    async with connect(manager="slurm-bridge-admission") as client, _folder(client, certificates, health) as folder:
        runtime = Runtime(client, health=health)
        namespaces = runtime.cache(NAMESPACES)

        async def labels_of(name: str) -> Mapping[str, str]:
            # A namespace so new that no event has told of it yet is asked for.
            found = namespaces.get(Key("", name)) or await client.find(NAMESPACES, Key("", name))
            return found.metadata.labels if found else {}

        app = application(rules.handlers(settings, labels_of))
        listening = False
        if health is not None:
            health.add_readiness_check("listener", lambda: None if listening else "not listening yet")
        async with asyncio.TaskGroup() as family:
            family.create_task(runtime.run())
            await namespaces.wait_synced(60)
            async with serve(app, folder / CERTIFICATE, folder / PRIVATE_KEY, port=port):
                listening = True
                await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _folder(
    client: KubeClient, certificates: Path | ManagedCertificates, health: Health | None
) -> AsyncIterator[Path]:
    """Where the pair is, for as long as inside."""
    if isinstance(certificates, Path):
        yield certificates
        return
    with tempfile.TemporaryDirectory(prefix="slinky-admission-") as name:
        folder, own = Path(name), certificates
        keeper = WebhookCertificates(client, own.secret, folder, service_dns_names(own.service), own.configuration)
        if health is not None:
            keeper.add_readiness_check(health)
        async with keeper.renewing():
            yield folder
