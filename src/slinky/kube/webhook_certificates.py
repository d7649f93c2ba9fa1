# SPDX-License-Identifier: Apache-2.0
"""Keeps the certificates of a webhook in a Secret that all replicas share, in files, and in the webhook configuration.

Every replica does the same; there is no leader. The Secret is patched only in the version that was read: if two
replicas renew at once, one gets a conflict and uses the certificates of the other. The files are written last, so that
no replica serves a certificate that the API server does not trust yet.
"""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from slinky.kube.certificates import CertificateBundle, decode_bundle, encode_bundle, renew_bundle
from slinky.kube.client import KubeClient
from slinky.kube.errors import AlreadyExists, Conflict, KubeError
from slinky.kube.resource import Resource
from slinky.kube.tls import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY
from slinky.kube.types import Key, Object
from slinky.kube.views import SECRETS, Secret
from slinky.observe import Clock, Health, Log, SystemClock

log = Log("slinky.kube.webhook_certificates")


class ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How the API server connects to a webhook."""

    ca_bundle: bytes = b""


class WebhookEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(Object, frozen=True):
    """A webhook configuration."""

    webhooks: tuple[WebhookEntry, ...] = ()


_GROUP = "admissionregistration.k8s.io/v1"
VALIDATING = Resource(
    _GROUP, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", WebhookConfiguration, namespaced=False
)
MUTATING = Resource(
    _GROUP, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", WebhookConfiguration, namespaced=False
)


class WebhookCertificates:
    """Renews the certificates in one Secret, one folder and the webhook configurations of one name."""

    def __init__(
        self,
        client: KubeClient,
        secret: Key,
        folder: Path,
        hosts: tuple[str, ...],
        configuration: str,
        clock: Clock | None = None,
    ) -> None:
        self._client, self._secret, self._folder = client, secret, folder
        self._hosts, self._configuration = hosts, configuration
        self._clock = clock or SystemClock()
        self._problem: str | None = "no certificate yet"

    @property
    def certificate(self) -> Path:
        """The file of the certificate."""
        return self._folder / CERTIFICATE

    @property
    def private_key(self) -> Path:
        """The file of the private key."""
        return self._folder / PRIVATE_KEY

    def add_readiness_check(self, health: Health) -> None:
        """Make the process unready until it has a certificate."""
        health.add_readiness_check("certificates", lambda: self._problem)

    @contextlib.asynccontextmanager
    async def renewing(self, interval: float = 60.0) -> AsyncIterator[None]:
        """Renew the certificates now, and every `interval` seconds while the context is open."""
        await self.renew()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.run(interval))
            try:
                yield
            finally:
                task.cancel()

    async def run(self, interval: float = 60.0) -> None:
        """Renew the certificates regularly until cancelled; a failure is retried at the next interval."""
        while True:
            await self._clock.sleep(interval)
            try:
                await self.renew()
            except (KubeError, TimeoutError) as error:
                # The current pair is valid for weeks, so a failed renewal does not make the process unready.
                log.warning("renewing the webhook certificates failed; it is retried", error=error)

    async def renew(self) -> None:
        """Renew what is due: first in the Secret, then in the webhook configurations, then in the files."""
        bundle = await self._renew_secret()
        await self._write_ca_bundle(bundle.ca_bundle.encode())
        self._write_files(bundle)
        self._problem = None

    async def _renew_secret(self) -> CertificateBundle:
        while True:
            secret = await self._client.find(SECRETS, self._secret)
            current = _read_bundle(secret)
            bundle = renew_bundle(current, self._hosts, self._clock.now())
            if bundle == current:
                return bundle
            try:
                await self._store(bundle, secret)
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: use its certificates
            log.info("webhook certificates renewed", secret=str(self._secret))
            return bundle

    async def _store(self, bundle: CertificateBundle, secret: Secret | None) -> None:
        encoded = {name: base64.b64encode(value).decode() for name, value in encode_bundle(bundle).items()}
        if secret is None:
            await self._client.create(SECRETS, SECRETS.manifest(self._secret, data=encoded))
            return
        meta = {"resourceVersion": secret.metadata.resource_version}
        await self._client.patch(SECRETS, self._secret, {"metadata": meta, "data": encoded})

    async def _write_ca_bundle(self, ca_bundle: bytes) -> None:
        for resource in (VALIDATING, MUTATING):
            configuration = await self._client.find(resource, Key("", self._configuration))
            if configuration and (patch := ca_bundle_patch(configuration.webhooks, ca_bundle)):
                await self._client.patch_json(resource, configuration.key, patch)

    def _write_files(self, bundle: CertificateBundle) -> None:
        authority = self._folder / CA_CERTIFICATE
        files = (
            (self.private_key, bundle.serving.key),
            (self.certificate, bundle.serving.certificate),
            (authority, bundle.ca_bundle),
        )
        for path, text in files:
            if not path.exists() or path.read_text() != text:
                new_file = path.with_suffix(".new")
                new_file.touch(mode=0o600)
                new_file.write_text(text)
                os.replace(new_file, path)  # noqa: PTH105 -- atomic, because a reader may open the file at any moment


def service_dns_names(service: Key) -> tuple[str, ...]:
    """The DNS names of a Service."""
    full_name = f"{service.name}.{service.namespace}.svc"
    return full_name, f"{service.name}.{service.namespace}", f"{full_name}.cluster.local"


def ca_bundle_patch(webhooks: Sequence[WebhookEntry], ca_bundle: bytes) -> list[dict[str, Any]]:
    """The JSON patch that sets the CA bundle of every webhook; empty if all have it.

    The patch fails if a webhook has changed its position in the list since the list was read.
    """
    patch: list[dict[str, Any]] = []
    for index, entry in enumerate(webhooks):
        if entry.client_config.ca_bundle != ca_bundle:
            path = f"/webhooks/{index}"
            encoded = base64.b64encode(ca_bundle).decode()
            patch.append({"op": "test", "path": f"{path}/name", "value": entry.name})
            patch.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": encoded})
    return patch


def _read_bundle(secret: Secret | None) -> CertificateBundle | None:
    try:
        return decode_bundle(secret.data) if secret else None
    except ValueError as error:
        log.warning(
            "the Secret of the webhook certificates cannot be decoded; new certificates are created", error=error
        )
        return None
