# SPDX-License-Identifier: Apache-2.0
"""The webhook process: certificates, listener, readiness."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slinky.api.names.wellknown import WEBHOOK_PORT
from slinky.kube import Key, KubeClient, connect
from slinky.kube.admission import Handler, application, serve
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY
from slinky.kube.webhook_certificates import WebhookCertificates, service_dns_names
from slinky.observe import Health, Log
from slinky.webhook.application import handlers
from slinky.webhook.external_metrics import serving_external_metrics

log = Log("slinky.webhook.server")


@dataclass(frozen=True)
class WebhookSettings:
    """Settings of `slinky webhook`."""

    namespace: str = "slinky"
    """Namespace of the Secret and the Service."""
    service: str = "slurm-operator-webhook"
    """Name of the Service; the certificate is valid for its DNS names."""
    secret: str = "slurm-operator-webhook-ca"  # noqa: S105 -- the name of a Secret
    """Name of the Secret with the certificates that the webhook manages itself."""
    configuration: str = "slurm-operator-webhook"
    """Name of the validating and the mutating webhook configuration, which receive the CA certificate."""
    certificates: Path | None = None
    """A folder with tls.crt and tls.key that cert-manager maintains; None: the webhook manages its own certificates."""
    hosts: tuple[str, ...] = ()
    """Additional names or addresses for the certificate."""
    host: str = "0.0.0.0"  # noqa: S104 -- the API server comes from outside the pod
    port: int = WEBHOOK_PORT
    check_interval: float = 60.0
    external_metrics_port: int = 0
    """Port of the external metrics of NodeSets; 0: they are not served."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names for which the certificate is valid."""
        return (*service_dns_names(Key(self.namespace, self.service)), *self.hosts)


async def main(
    settings: WebhookSettings,
    health: Health,
    client: KubeClient | None = None,
    more: Mapping[str, Handler] | None = None,
) -> None:
    """Serve until cancelled; `more` adds handlers of other packages by path."""
    async with contextlib.AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(connect())
        port = await stack.enter_async_context(serving(settings, health, client, more))
        log.info("webhook is serving", port=port)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def serving(
    settings: WebhookSettings, health: Health, client: KubeClient, more: Mapping[str, Handler] | None = None
) -> AsyncIterator[int]:
    """Serve inside the context; yields the port."""
    listening = False
    health.add_readiness_check("listener", lambda: None if listening else "not listening yet")
    app = application({**handlers(client), **(more or {})})
    async with contextlib.AsyncExitStack() as stack:
        folder = settings.certificates
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slinky-webhook-")))
            secret = Key(settings.namespace, settings.secret)
            certificates = WebhookCertificates(client, secret, folder, settings.names, settings.configuration)
            certificates.add_readiness_check(health)
            await stack.enter_async_context(certificates.renewing(settings.check_interval))
        pair = folder / CERTIFICATE, folder / PRIVATE_KEY
        port = await stack.enter_async_context(serve(app, *pair, host=settings.host, port=settings.port))
        listening = True
        if settings.external_metrics_port:
            service = Key(settings.namespace, settings.service)
            await stack.enter_async_context(
                serving_external_metrics(
                    client, folder, service, host=settings.host, port=settings.external_metrics_port
                )
            )
        yield port
