# SPDX-License-Identifier: Apache-2.0
"""A conversation with one slurmrestd: version, token, and a probe that spares ten seconds.

`call` sends one request of the endpoint table and returns its decoded answer. It negotiates the data parser
once, renews a refused token once, and after slurmctld was found unreachable asks the cheap `/ping/` before
anything else. It keeps no Slurm state and repeats no request that may have been carried out.
"""

from __future__ import annotations

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
from slinky.slurm.tokens import TokenError, TokenSource, claims
from slinky.slurm.transport import versions
from slinky.slurm.transport.decode import NOT_SERVED, RawResponse, read
from slinky.slurm.transport.endpoints import Ctld, Endpoint
from slinky.slurm.transport.http import HttpTransport, Query
from slinky.slurm.transport.versions import DataParserVersion

A = TypeVar("A", bound=Response)

#: After a probe has failed, further calls fail at once for this long.
PROBE_PAUSE = 1.0


class Session:
    """Version, token and reachability of one slurmrestd."""

    def __init__(
        self,
        transport: HttpTransport,
        tokens: TokenSource,
        *,
        user: str | None = None,
        version: DataParserVersion | None = None,
        deadline: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.transport = transport
        self.tokens = tokens
        self.user = user
        #: Who answered last.
        self.slurm = SlurmMeta()
        #: The only cluster whose answers are taken, if set.
        self.pinned = ""
        self._version = version
        self._deadline = float("inf") if deadline is None else deadline
        self._negotiation = asyncio.Lock()
        self._monotonic = monotonic
        self._suspected = False
        self._probed_at = float("-inf")
        self._probing = asyncio.Lock()

    async def version(self) -> DataParserVersion:
        """The newest data parser that both sides know; asked once."""
        if self._version is None:
            async with self._negotiation:
                if self._version is None:
                    self._version = await self._negotiate()
        return self._version

    async def call(
        self,
        endpoint: Endpoint,
        kind: type[A],
        *,
        query: Query = (),
        body: Value | None = None,
        **names: str | int,
    ) -> A:
        """The decoded answer of one request."""
        reply = await self.reply(endpoint, query=query, body=body, **names)
        return await self.understand(reply, endpoint, kind)

    async def understand(self, reply: RawResponse, endpoint: Endpoint, kind: type[A]) -> A:
        """A raw answer decoded, or the error that it really stands for."""
        if reply.status == 304 and endpoint.method != "GET":
            return kind()  # a write that found everything as wanted
        try:
            answer = read(reply, kind)
        except SlurmError as error:
            raise await self._explained(error, endpoint, reply) from error
        self.slurm = (answer.meta or ResponseMeta()).slurm
        if self.pinned and self.slurm.cluster not in {"", self.pinned}:
            raise Malformed(f"cluster {self.slurm.cluster!r} answers where {self.pinned!r} was")
        return answer

    async def reply(
        self, endpoint: Endpoint, *, query: Query = (), body: Value | None = None, **names: str | int
    ) -> RawResponse:
        """The raw answer of one request, with the token renewed once if it was refused."""
        version = await self.version()
        versions.demand(version, endpoint.since, f"{endpoint.method} {endpoint.path}")
        if self._suspected and endpoint.api == "slurm":
            await self._probe(version)
        path = endpoint.url(version, **names)
        payload = None if body is None else msgspec.json.encode(body)
        reply = await self._send(endpoint, path, query, payload)
        if _refuses_token(reply) and self.tokens.renew():
            reply = await self._send(endpoint, path, query, payload)
        if reply.status == 404 and not reply.json and reply.body.startswith(NOT_SERVED):
            self._version = None  # another slurmrestd stands there now; negotiate anew next time
        return reply

    async def up(self) -> bool:
        """Whether any slurmctld answers, by slurmrestd's own probe: 1.5 seconds at most, instead of 10.

        Raises `Auth` where slurmctld refused the token, which slurmrestd calls "not responding".
        """
        endpoint = Ctld.PING
        reply = await self._send(endpoint, endpoint.url(await self.version()), (), None)
        pings = read(reply, PingResponse).pings or ()
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
        ping = Ctld.PING
        for version in versions.PREFERENCE:
            reply = await self._send(ping, ping.url(version), (), None)
            if reply.status == 404 and reply.body.startswith(NOT_SERVED):
                continue
            self.slurm = (read(reply, PingResponse).meta or ResponseMeta()).slurm
            return version
        raise Unsupported(f"slurmrestd serves none of {', '.join(map(str, versions.PREFERENCE))}")

    async def _probe(self, version: DataParserVersion) -> None:
        """Raise `Unreachable` while slurmctld is down; one probe serves everybody who waits."""
        async with self._probing:
            if not self._suspected:
                return
            if self._monotonic() - self._probed_at < PROBE_PAUSE:
                raise SlurmctldUnreachable("slurmctld did not answer a moment ago")
            self._probed_at = self._monotonic()
            if not await self.up():
                raise SlurmctldUnreachable("slurmctld does not answer slurmrestd's ping")
            self._suspected = False

    async def _explained(self, error: SlurmError, endpoint: Endpoint, reply: RawResponse) -> SlurmError:
        """What an error really means, where slurmrestd's own words mislead."""
        if isinstance(error, Retryable):
            error.maybe_applied = error.maybe_applied and endpoint.method != "GET"
        if isinstance(error, DatabaseUnreachable):
            return await self._database_or_token(error)
        if isinstance(error, SlurmctldUnreachable):
            self._suspected = True
        elif isinstance(error, Rejected) and reply.status == 403 and error.number == 1 and not await self.up():
            # With slurmctld down a cancel is "not permitted"; that says nothing of our rights.
            self._suspected = True
            return SlurmctldUnreachable(str(error))
        return error

    async def _database_or_token(self, error: DatabaseUnreachable) -> SlurmError:
        """On a slurmdb path a refused token looks like an outage; slurmctld tells them apart."""
        try:
            if claims(self._token()).expired(time.time()):
                return AuthError("the token has expired; slurmrestd reports that as a database outage")
        except TokenError:
            return AuthError("the token is unreadable; slurmrestd reports that as a database outage")
        probe = Ctld.LICENSES
        reply = await self._send(probe, probe.url(await self.version()), (), None)
        if _refuses_token(reply):
            return AuthError("the token was refused; slurmrestd reports that as a database outage")
        return error


def _forbids(reply: RawResponse, error: SlurmError) -> bool:
    return reply.status == 403 and isinstance(error, Rejected) and error.number == 1


def _refuses_token(reply: RawResponse) -> bool:
    return reply.status in {401, 511}
