# SPDX-License-Identifier: Apache-2.0
"""Keeps a webhook's certificates: in a Secret that all replicas share, in files, and in the API server's trust.

Every replica does the same and none leads: the Secret is replaced only in the version that was read, so of two that
renew at once one loses and takes what the other made. Files come last, so that nobody serves a certificate that is
not trusted yet.
"""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from slinky.kube.certificates import CertificateBundle, renew_bundle
from slinky.kube.client import KubeClient
from slinky.kube.errors import AlreadyExists, Conflict, KubeError
from slinky.kube.resource import Resource
from slinky.kube.types import Key, Object
from slinky.kube.views import SECRETS, Secret
from slinky.observe import Clock, Health, Log, SystemClock

log = Log("slinky.kube.webhook_certificates")

BUNDLE_KEY = "pouch.json"
CERTIFICATE, PRIVATE_KEY, CA_CERTIFICATE = "tls.crt", "tls.key", "ca.crt"


class ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How the API server reaches a webhook."""

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
    """Looks after one Secret, one folder and the configurations of one name."""

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
        self._trouble: str | None = "no certificate yet"

    @property
    def certificate(self) -> Path:
        """The file with the certificate."""
        return self._folder / CERTIFICATE

    @property
    def private(self) -> Path:
        """The file with its key."""
        return self._folder / PRIVATE_KEY

    def add_readiness_check(self, health: Health) -> None:
        """Not ready while there is no certificate that works."""
        health.add_readiness_check("certificates", lambda: self._trouble)

    @contextlib.asynccontextmanager
    async def kept_renewed(self, every: float = 60.0) -> AsyncIterator[None]:
        """Certificates that are there now and stay fresh while inside."""
        await self.renew()
        async with asyncio.TaskGroup() as family:
            task = family.create_task(self.run(every))
            try:
                yield
            finally:
                task.cancel()

    async def run(self, every: float = 60.0) -> None:
        """Keep them for good; what fails is tried again."""
        while True:
            await self._clock.sleep(every)
            try:
                await self.renew()
            except (KubeError, TimeoutError) as error:
                # The pair that serves is good for weeks: being unable to renew it now is not being unready.
                log.warning("certificates could not be looked after", error=error)

    async def renew(self) -> None:
        """Renew what is due, trust it, serve it."""
        pouch = await self._renewed()
        await self._trusted(pouch.trust.encode())
        self._written(pouch)
        self._trouble = None

    async def _renewed(self) -> CertificateBundle:
        while True:
            found = await self._client.find(SECRETS, self._secret)
            have = _opened(found)
            pouch = renew_bundle(have, self._hosts, self._clock.now())
            if pouch == have:
                return pouch
            try:
                await self._store(pouch, found)
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: take what it made
            log.info("certificates renewed", secret=str(self._secret))
            return pouch

    async def _store(self, pouch: CertificateBundle, found: Secret | None) -> None:
        data = {
            BUNDLE_KEY: msgspec.json.encode(pouch),
            CA_CERTIFICATE: pouch.trust.encode(),
            CERTIFICATE: pouch.serving.certificate.encode(),
            PRIVATE_KEY: pouch.serving.key.encode(),
        }
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        if found is None:
            await self._client.create(SECRETS, SECRETS.manifest(self._secret, data=encoded))
            return
        same = {"resourceVersion": found.metadata.resource_version}
        await self._client.patch(SECRETS, self._secret, {"metadata": same, "data": encoded})

    async def _trusted(self, trust: bytes) -> None:
        for resource in (VALIDATING, MUTATING):
            found = await self._client.find(resource, Key("", self._configuration))
            if found and (patch := ca_bundle_patch(found.webhooks, trust)):
                await self._client.patch_json(resource, found.key, patch)

    def _written(self, pouch: CertificateBundle) -> None:
        for path, text in ((self.private, pouch.serving.key), (self.certificate, pouch.serving.certificate)):
            if not path.exists() or path.read_text() != text:
                fresh = path.with_suffix(".new")
                fresh.touch(mode=0o600)
                fresh.write_text(text)
                os.replace(fresh, path)  # noqa: PTH105 -- atomic, as a reader may look at any moment


def service_dns_names(service: Key) -> tuple[str, ...]:
    """What the API server and others may call a Service."""
    inside = f"{service.name}.{service.namespace}.svc"
    return inside, f"{service.name}.{service.namespace}", f"{inside}.cluster.local"


def ca_bundle_patch(webhooks: Sequence[WebhookEntry], trust: bytes) -> list[dict[str, Any]]:
    """The patch that makes every webhook trust `trust`; empty when all do. An entry that moved meanwhile fails it."""
    patch: list[dict[str, Any]] = []
    for index, entry in enumerate(webhooks):
        if entry.client_config.ca_bundle != trust:
            where = f"/webhooks/{index}"
            bundle = base64.b64encode(trust).decode()
            patch.append({"op": "test", "path": f"{where}/name", "value": entry.name})
            patch.append({"op": "add", "path": f"{where}/clientConfig/caBundle", "value": bundle})
    return patch


def _opened(secret: Secret | None) -> CertificateBundle | None:
    raw = secret.data.get(BUNDLE_KEY) if secret else None
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=CertificateBundle)
    except msgspec.DecodeError as error:
        log.warning("the Secret of the certificates cannot be read and is made anew", error=error)
        return None
