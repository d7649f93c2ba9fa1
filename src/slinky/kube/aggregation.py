# SPDX-License-Identifier: Apache-2.0
"""What a server of an aggregated API needs: who calls it, whether they may, and its registration.

The API server authenticates a user, and forwards the request with its own client certificate (the front proxy) and the
user in headers. `FrontProxy` says which certificate and which headers, as the ConfigMap
`extension-apiserver-authentication` does. The headers count only on a connection with that certificate. A
SubjectAccessReview then decides about the user, so that a caller that reaches this server in another way gets nothing.
"""

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from slinky.kube.client import KubeClient
from slinky.kube.errors import AlreadyExists, KubeError
from slinky.kube.metrics_auth import AccessReview
from slinky.kube.resource import Resource
from slinky.kube.tls import server_context
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS
from slinky.observe import Log

log = Log("slinky.kube.aggregation")

AUTHENTICATION = Key("kube-system", "extension-apiserver-authentication")


class FrontProxy(msgspec.Struct, frozen=True):
    """How the API server identifies itself and the users whose requests it forwards."""

    client_ca: str
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> "FrontProxy":
        """Read the data of the ConfigMap; `ValueError` if the API server has no front proxy."""
        authority = data.get("requestheader-client-ca-file", "")
        if not authority.strip():
            raise ValueError("the API server has no certificate authority for front proxies")
        return cls(
            authority,
            _names(data.get("requestheader-allowed-names", "[]")),
            _names(data.get("requestheader-username-headers", '["X-Remote-User"]')),
            _names(data.get("requestheader-group-headers", '["X-Remote-Group"]')),
        )

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether this verified client certificate (as `ssl` decodes it) is that of the API server."""
        if not certificate:
            return False
        subject = [pair for entry in certificate.get("subject", ()) for pair in entry]
        names = [value for key, value in subject if key == "commonName"]
        return not self.allowed_names or any(name in self.allowed_names for name in names)

    def user(self, headers: Mapping[str, str]) -> str:
        """The user of a forwarded request; empty if it has none."""
        return next((headers[name] for name in self.username_headers if headers.get(name)), "")


def _names(text: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{text[:80]!r} is not a list of names") from error


async def read_front_proxy(client: KubeClient) -> FrontProxy:
    """Read how the API server identifies itself."""
    return FrontProxy.parse((await client.get(CONFIG_MAPS, AUTHENTICATION)).data)


class ForwardedCaller:
    """Decides about forwarded requests."""

    def __init__(self, client: KubeClient, proxy: FrontProxy) -> None:
        self.client, self.proxy = client, proxy

    def is_forwarded(self, request: web.Request) -> bool:
        """Whether the API server has forwarded the request."""
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        return self.proxy.trusts(certificate)

    async def status(self, request: web.Request, attributes: Mapping[str, str]) -> int:
        """The HTTP status for a request for a resource: 200, 401, 403, or 503 if the API server cannot be asked."""
        user = self.proxy.user(request.headers)
        if not self.is_forwarded(request) or not user:
            return 401
        groups = [value for name in self.proxy.group_headers for value in request.headers.getall(name, [])]
        api = "authorization.k8s.io/v1"
        spec = {"user": user, "groups": groups, "resourceAttributes": dict(attributes)}
        body = msgspec.json.encode({"apiVersion": api, "kind": "SubjectAccessReview", "spec": spec})
        try:
            answer = await self.client.send("POST", f"/apis/{api}/subjectaccessreviews", body=body)
        except (KubeError, TimeoutError) as error:
            log.warning("a request is refused: the API server cannot review it", error=error)
            return 503
        return 200 if msgspec.json.decode(answer, type=AccessReview).status.allowed else 403


@contextlib.asynccontextmanager
async def serve_aggregated(
    app: web.Application, proxy: FrontProxy, certificate: Path, key: Path, *, host: str, port: int
) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Serve over TLS to callers with a certificate of the front proxy's authority. Yields port and TLS context."""
    context, _ = server_context(certificate, key)
    trust_front_proxy(context, proxy)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=90.0, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        yield runner.addresses[0][1], context
    finally:
        await runner.cleanup()


def trust_front_proxy(context: ssl.SSLContext, proxy: FrontProxy) -> None:
    """Require client certificates of the front proxy's authority; an earlier authority stays trusted."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as for the authority of the API server, see `tls`
    context.load_verify_locations(cadata=proxy.client_ca)
    context.verify_mode = ssl.CERT_REQUIRED


# --- registration


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service of an aggregated API."""

    namespace: str = ""
    name: str = ""
    port: int = 443


class ApiServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an APIService that is read."""

    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class ApiService(Object, frozen=True):
    """The registration of an API group."""

    spec: ApiServiceSpec = ApiServiceSpec()


API_SERVICES = Resource("apiregistration.k8s.io/v1", "APIService", "apiservices", ApiService, namespaced=False)


class GroupRegistration(Enum):
    """Whether an API group is ours."""

    OURS = "ours"
    TAKEN = "taken"


async def register(
    client: KubeClient, group: str, version: str, service: ServiceReference, ca_bundle: bytes
) -> tuple[GroupRegistration, str]:
    """Register an API group, unless another Service has it; returns who has it."""
    name = f"{version}.{group}"
    live = await client.find(API_SERVICES, Key("", name))
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": msgspec.to_builtins(service),
        "caBundle": base64.b64encode(ca_bundle).decode(),
    }
    if live is None:
        try:
            await client.create(API_SERVICES, API_SERVICES.manifest(Key("", name), spec=spec))
        except AlreadyExists:
            return await register(client, group, version, service, ca_bundle)
        return GroupRegistration.OURS, ""
    owner = live.spec.service
    if owner is None or (owner.namespace, owner.name) != (service.namespace, service.name):
        holder = f"Service {owner.namespace}/{owner.name}" if owner else "the API server itself"
        return GroupRegistration.TAKEN, holder
    if live.spec.ca_bundle != ca_bundle or owner.port != service.port:
        await client.patch(API_SERVICES, live.key, {"spec": spec})
    return GroupRegistration.OURS, ""
