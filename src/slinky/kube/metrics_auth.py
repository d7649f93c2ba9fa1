# SPDX-License-Identifier: Apache-2.0
"""Authorization of /metrics by the Kubernetes API server.

A caller sends a Kubernetes bearer token. A TokenReview finds the user of the token, and a SubjectAccessReview decides
whether this user may `get` the path. Results are cached for a minute, so that a scraper costs two requests a minute and
not two per scrape. A caller is refused while the API server cannot be asked.
"""

import contextlib
import functools
import hashlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from slinky.kube.certificates import CertificatePair, create_authority, create_serving_pair
from slinky.kube.client import KubeClient, connect
from slinky.kube.errors import KubeError
from slinky.kube.tls import load_pair
from slinky.observe import Clock, Health, Log, SystemClock
from slinky.observe.endpoint import serve_endpoint
from slinky.observe.process import ServerFactory

log = Log("slinky.kube.metrics_auth")

PATH = "/metrics"
#: How long a result is cached.
CACHE_SECONDS = 60.0
#: The number of cached results. A caller can invent any number of tokens, so the cache must not grow with them.
CACHE_SIZE = 256


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user that a token belongs to."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class TokenReviewStatus(msgspec.Struct, frozen=True):
    """The status of a TokenReview."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class AccessReviewStatus(msgspec.Struct, frozen=True):
    """The status of a SubjectAccessReview."""

    allowed: bool = False


class TokenReview(msgspec.Struct, frozen=True):
    """The part of a TokenReview that is read."""

    status: TokenReviewStatus = TokenReviewStatus()


class AccessReview(msgspec.Struct, frozen=True):
    """The part of a SubjectAccessReview that is read."""

    status: AccessReviewStatus = AccessReviewStatus()


class MetricsAuthorizer:
    """Asks the API server whether a caller may read a path."""

    def __init__(self, client: KubeClient, path: str = PATH, clock: Clock | None = None) -> None:
        self._client = client
        self._path = path
        self._clock = clock or SystemClock()
        self._results: dict[bytes, tuple[float, int]] = {}

    async def __call__(self, authorization: str) -> int:
        """The HTTP status for an Authorization header: 200, 401, 403, or 503 if the API server cannot be asked."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return 401
        token_hash, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        reviewed_at, status = self._results.get(token_hash, (-CACHE_SECONDS, 0))
        if now - reviewed_at < CACHE_SECONDS:
            return status
        try:
            status = await self._review(token.strip())
        except (KubeError, TimeoutError) as error:
            log.warning("/metrics is refused to a caller: the API server cannot review the token", error=error)
            return 503
        if len(self._results) >= CACHE_SIZE:
            self._results.clear()
        self._results[token_hash] = now, status
        return status

    async def _review(self, token: str) -> int:
        body = await self._post("authentication", "TokenReview", {"token": token})
        token_review = msgspec.json.decode(body, type=TokenReview)
        if not token_review.status.authenticated:
            return 401
        user = token_review.status.user
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        body = await self._post("authorization", "SubjectAccessReview", spec)
        return 200 if msgspec.json.decode(body, type=AccessReview).status.allowed else 403

    async def _post(self, group: str, kind: str, spec: dict[str, Any]) -> bytes:
        api = f"{group}.k8s.io/v1"
        body = msgspec.json.encode({"apiVersion": api, "kind": kind, "spec": spec})
        return await self._client.send("POST", f"/apis/{api}/{kind.lower()}s", body=body)


class SelfSignedCertificate:
    """A self-signed certificate that is replaced before it expires, for callers that do not verify the server."""

    def __init__(self, host: str, clock: Clock | None = None) -> None:
        self._host = host
        self._clock = clock or SystemClock()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._pair = self._create()

    def refresh(self) -> None:
        """Replace the certificate if its renewal is due."""
        if self._pair.needs_renewal(self._clock.now()):
            self._pair = self._create()

    def _create(self) -> CertificatePair:
        now = self._clock.now()
        pair = create_serving_pair(create_authority(now), (self._host,), now)
        load_pair(self.context, pair.certificate.encode(), pair.key.encode())
        return pair


@contextlib.asynccontextmanager
async def serve_metrics(health: Health, *, host: str, port: int, kubeconfig: str = "") -> AsyncIterator[int]:
    """Serve /metrics over TLS to authorized callers while the context is open. Yields the port."""
    certificate = SelfSignedCertificate("localhost")
    async with connect(kubeconfig or None) as client:
        metrics_authorizer = MetricsAuthorizer(client)

        async def authorize(authorization: str) -> int:
            certificate.refresh()
            return await metrics_authorizer(authorization)

        server = serve_endpoint(health, host=host, port=port, tls=certificate.context, authorizer=authorize)
        async with server as bound_port:
            yield bound_port


def metrics_server(host: str, port: int, kubeconfig: str = "") -> ServerFactory:
    """The authorized /metrics endpoint as a server for `run_process`."""
    return functools.partial(serve_metrics, host=host, port=port, kubeconfig=kubeconfig)
