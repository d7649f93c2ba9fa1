# SPDX-License-Identifier: Apache-2.0
"""Who may read our metrics: whoever the API server knows and allows.

A caller shows a token of Kubernetes; a TokenReview says whose it is and a SubjectAccessReview whether that one may
`get` the path. Answers are remembered for a while, so that a scraper costs two requests a minute and not two a
scrape. What cannot be found out is refused.
"""

import contextlib
import functools
import hashlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from slinky.kube import certificates
from slinky.kube.client import KubeClient, connect
from slinky.kube.errors import KubeError
from slinky.kube.tls import load_pair
from slinky.observe import Clock, Health, Log, SystemClock
from slinky.observe.endpoint import serve_endpoint
from slinky.observe.process import ServerFactory

log = Log("slinky.kube.metrics_auth")

PATH = "/metrics"
#: How long an answer of the API server holds.
CACHE_SECONDS = 60.0
#: A caller can make up tokens without end; memory is not given to them.
CACHE_SIZE = 256


class ReviewedUser(msgspec.Struct, frozen=True):
    """Whose token it is."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class TokenReviewStatus(msgspec.Struct, frozen=True):
    """What a TokenReview says."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class AccessReviewStatus(msgspec.Struct, frozen=True):
    """What a SubjectAccessReview says."""

    allowed: bool = False


class TokenReview(msgspec.Struct, frozen=True):
    """The part of a TokenReview that is read."""

    status: TokenReviewStatus = TokenReviewStatus()


class AccessReview(msgspec.Struct, frozen=True):
    """The part of a SubjectAccessReview that is read."""

    status: AccessReviewStatus = AccessReviewStatus()


class MetricsAuthorizer:
    """Asks the API server about callers."""

    def __init__(self, client: KubeClient, path: str = PATH, clock: Clock | None = None) -> None:
        self._client = client
        self._path = path
        self._clock = clock or SystemClock()
        self._told: dict[bytes, tuple[float, int]] = {}

    async def __call__(self, authorization: str) -> int:
        """The status to answer with: 200, or 401 for nobody, 403 for somebody else, 503 when it cannot be known."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return 401
        key, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        since, status = self._told.get(key, (-CACHE_SECONDS, 0))
        if now - since < CACHE_SECONDS:
            return status
        try:
            status = await self._asked(token.strip())
        except (KubeError, TimeoutError) as error:
            log.warning("nobody can be let in: the API server cannot be asked", error=error)
            return 503
        if len(self._told) >= CACHE_SIZE:
            self._told.clear()
        self._told[key] = now, status
        return status

    async def _asked(self, token: str) -> int:
        who = msgspec.json.decode(await self._post("authentication", "TokenReview", {"token": token}), type=TokenReview)
        if not who.status.authenticated:
            return 401
        user = who.status.user
        asked = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        may = msgspec.json.decode(await self._post("authorization", "SubjectAccessReview", asked), type=AccessReview)
        return 200 if may.status.allowed else 403

    async def _post(self, group: str, kind: str, spec: dict[str, Any]) -> bytes:
        api = f"{group}.k8s.io/v1"
        body = msgspec.json.encode({"apiVersion": api, "kind": kind, "spec": spec})
        return await self._client.send("POST", f"/apis/{api}/{kind.lower()}s", body=body)


class SelfSignedCertificate:
    """A certificate that signs itself and is replaced in time; for callers that trust the address, not the name."""

    def __init__(self, host: str, clock: Clock | None = None) -> None:
        self._host = host
        self._clock = clock or SystemClock()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._pair = self._made()

    def refresh(self) -> None:
        """Replace it if that is due."""
        if self._pair.spent(self._clock.now()):
            self._pair = self._made()

    def _made(self) -> certificates.CertificatePair:
        now = self._clock.now()
        pair = certificates.create_serving_pair(certificates.create_authority(now), (self._host,), now)
        load_pair(self.context, pair.certificate.encode(), pair.key.encode())
        return pair


@contextlib.asynccontextmanager
async def serve_metrics(health: Health, *, host: str, port: int, kubeconfig: str = "") -> AsyncIterator[int]:
    """Serve /metrics over TLS to those who may read it, while inside; gives the port."""
    own = SelfSignedCertificate("localhost")
    async with connect(kubeconfig or None) as client:
        reviewer = MetricsAuthorizer(client)

        async def guard(authorization: str) -> int:
            own.refresh()
            return await reviewer(authorization)

        async with serve_endpoint(health, host=host, port=port, tls=own.context, guard=guard) as bound:
            yield bound


def metrics_server(host: str, port: int, kubeconfig: str = "") -> ServerFactory:
    """A door for `slinky.observe.process.run`."""
    return functools.partial(serve_metrics, host=host, port=port, kubeconfig=kubeconfig)
