# SPDX-License-Identifier: Apache-2.0
"""Requests to one slurmrestd: negotiates the data parser version, sends the token, translates errors.

`call` sends one request of the endpoint table and returns the decoded response. It negotiates the version once and
renews a refused token once. While slurmctld is unreachable it sends the cheap `ping/` first, because any other request
would take ten seconds to fail. The session keeps no Slurm state and never repeats a request that may have been applied.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from slinky.slurm.errors import (
    AuthError,
    DatabaseUnreachable,
    Malformed,
    Rejected,
    Retryable,
    SlurmctldUnreachable,
    SlurmError,
    Unsupported,
)
from slinky.slurm.model.responses import PingResponse, Response, ResponseMeta, SlurmMeta
from slinky.slurm.model.values import Value
from slinky.slurm.tokens import TokenError, TokenSource, read_claims
from slinky.slurm.transport import versions
from slinky.slurm.transport.decode import NOT_SERVED, RawResponse, parse_response
from slinky.slurm.transport.endpoints import Endpoint, Slurmctld
from slinky.slurm.transport.request_transport import Query, RequestTransport
from slinky.slurm.transport.versions import DataParserVersion

R = TypeVar("R", bound=Response)

#: After a failed probe, further calls fail at once for this many seconds.
PROBE_PAUSE = 1.0


class Session:
    """Version, token and reachability of one slurmrestd."""

    def __init__(
        self,
        transport: RequestTransport,
        tokens: TokenSource,
        *,
        user: str | None = None,
        version: DataParserVersion | None = None,
        deadline: float | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds since 1970, to compare with the expiry of a token; `monotonic` measures pauses."""
        self.transport = transport
        self.tokens = tokens
        self.user = user
        #: Release and cluster of the server that sent the last response.
        self.server = SlurmMeta()
        #: If set, responses of any other cluster are errors.
        self.expected_cluster = ""
        self._version = version
        self._deadline = float("inf") if deadline is None else deadline
        self._negotiation = asyncio.Lock()
        self._clock = clock
        self._monotonic = monotonic
        self._slurmctld_suspect = False
        self._probed_at = float("-inf")
        self._probing = asyncio.Lock()

    async def version(self) -> DataParserVersion:
        """The newest data parser that the library and the server support; negotiated once."""
        if self._version is None:
            async with self._negotiation:
                if self._version is None:
                    self._version = await self._negotiate()
        return self._version

    async def call(
        self,
        endpoint: Endpoint,
        kind: type[R],
        *,
        query: Query = (),
        body: Value | None = None,
        **names: str | int,
    ) -> R:
        """Send one request and decode the response."""
        raw = await self.send(endpoint, query=query, body=body, **names)
        return await self.decode(raw, endpoint, kind)

    async def decode(self, raw: RawResponse, endpoint: Endpoint, kind: type[R]) -> R:
        """Decode a raw response. Raises the error that the response stands for."""
        if raw.status == 304 and endpoint.method != "GET":
            return kind()  # a write that changed nothing
        try:
            response = parse_response(raw, kind)
        except SlurmError as error:
            raise await self._translate(error, endpoint, raw) from error
        self.server = (response.meta or ResponseMeta()).slurm
        if self.expected_cluster and self.server.cluster not in {"", self.expected_cluster}:
            raise Malformed(f"the response is from cluster {self.server.cluster!r}, not {self.expected_cluster!r}")
        return response

    async def send(
        self, endpoint: Endpoint, *, query: Query = (), body: Value | None = None, **names: str | int
    ) -> RawResponse:
        """Send one request and return the raw response; a refused token is renewed once."""
        version = await self.version()
        versions.require_version(version, endpoint.since, f"{endpoint.method} {endpoint.path}")
        if self._slurmctld_suspect and endpoint.api == "slurm":
            await self._probe()
        path = endpoint.url(version, **names)
        payload = None if body is None else msgspec.json.encode(body)
        raw = await self._send(endpoint, path, query, payload)
        if _refuses_token(raw) and self.tokens.renew():
            raw = await self._send(endpoint, path, query, payload)
        if raw.status == 404 and not raw.json and raw.body.startswith(NOT_SERVED):
            self._version = None  # another slurmrestd has replaced the first; negotiate again at the next call
        return raw

    async def up(self) -> bool:
        """Whether any slurmctld answers slurmrestd's own ping, which takes at most 1.5 seconds.

        Raises `AuthError` if slurmctld refused the token, which slurmrestd reports as "not responding".
        """
        endpoint = Slurmctld.PING
        raw = await self._send(endpoint, endpoint.url(await self.version()), (), None)
        pings = parse_response(raw, PingResponse).pings or ()
        if any(ping.refused for ping in pings):
            raise AuthError("slurmctld refused the token")
        return any(ping.up for ping in pings)

    async def _send(self, endpoint: Endpoint, path: str, query: Query, payload: bytes | None) -> RawResponse:
        headers = {"X-SLURM-USER-TOKEN": self._token(), "Accept": "application/json"}
        if self.user is not None:
            headers["X-SLURM-USER-NAME"] = self.user
        return await self.transport.send(
            endpoint.method,
            path,
            headers=headers,
            query=query,
            body=payload,
            deadline=min(endpoint.deadline, self._deadline),
        )

    def _token(self) -> str:
        try:
            return self.tokens.token()
        except TokenError as error:
            raise AuthError(str(error)) from error

    async def _negotiate(self) -> DataParserVersion:
        ping = Slurmctld.PING
        for version in versions.PREFERENCE:
            raw = await self._send(ping, ping.url(version), (), None)
            if raw.status == 404 and raw.body.startswith(NOT_SERVED):
                continue
            self.server = (parse_response(raw, PingResponse).meta or ResponseMeta()).slurm
            return version
        raise Unsupported(f"slurmrestd serves none of {', '.join(map(str, versions.PREFERENCE))}")

    async def _probe(self) -> None:
        """Raise `SlurmctldUnreachable` while slurmctld is down; concurrent calls share one probe."""
        async with self._probing:
            if not self._slurmctld_suspect:
                return
            if self._monotonic() - self._probed_at < PROBE_PAUSE:
                raise SlurmctldUnreachable("slurmctld did not answer the last ping, less than a second ago")
            self._probed_at = self._monotonic()
            if not await self.up():
                raise SlurmctldUnreachable("slurmctld does not answer slurmrestd's ping")
            self._slurmctld_suspect = False

    async def _translate(self, error: SlurmError, endpoint: Endpoint, raw: RawResponse) -> SlurmError:
        """The actual error, where slurmrestd's own number or text is misleading."""
        if isinstance(error, Retryable):
            error.maybe_applied = error.maybe_applied and endpoint.method != "GET"
        if isinstance(error, DatabaseUnreachable):
            return await self._database_or_token(error)
        if isinstance(error, SlurmctldUnreachable):
            self._slurmctld_suspect = True
        elif isinstance(error, Rejected) and raw.status == 403 and error.number == 1 and not await self.up():
            # While slurmctld is down, slurmrestd answers "not permitted" to a cancel, whatever the user's rights are.
            self._slurmctld_suspect = True
            return SlurmctldUnreachable(str(error))
        return error

    async def _database_or_token(self, error: DatabaseUnreachable) -> SlurmError:
        """Distinguish an outage from a refused token, which slurmrestd reports alike, by a request to slurmctld."""
        try:
            if read_claims(self._token()).expired(self._clock()):
                return AuthError("the token has expired; slurmrestd reports that as a database outage")
        except TokenError:
            return AuthError("the token is unreadable; slurmrestd reports that as a database outage")
        probe = Slurmctld.LICENSES
        raw = await self._send(probe, probe.url(await self.version()), (), None)
        if _refuses_token(raw):
            return AuthError("the token was refused; slurmrestd reports that as a database outage")
        return error


def _refuses_token(raw: RawResponse) -> bool:
    return raw.status in {401, 511}
