# SPDX-License-Identifier: Apache-2.0
"""Sends the requests of a command to slurmrestd without aiohttp, which takes longer to import than a command to run."""

import asyncio
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlencode

from slinky.bounds import RESPONSE_BYTES_MAX
from slinky.http_connections import ConnectError, HttpConnections, ResponseSizeError
from slinky.slurm.errors import Malformed, TransportError, UntrustedServer
from slinky.slurm.transport.decode import RawResponse
from slinky.slurm.transport.request_transport import CONNECTIONS, Query


class LightHttpTransport:
    """Connections of a command to one slurmrestd; a `RequestTransport`."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        """`url` is as for `HttpTransport`. Without `tls` the authorities of the system are trusted."""
        self._connections = HttpConnections(url, connections=CONNECTIONS, body_limit=RESPONSE_BYTES_MAX)
        self._tls = (tls or ssl.create_default_context()) if self._connections.secure else None

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        query: Query = (),
        body: bytes | None = None,
        deadline: float = 30.0,
    ) -> RawResponse:
        """Send a request and return the response, whatever its status. Raises `TransportError` if there is none."""
        target = f"{path}{'?' + urlencode(query) if query else ''}"
        content = {"Content-Type": "application/json"} if body is not None else {}
        request, maybe_applied = f"{method} {path}", method != "GET"
        try:
            async with asyncio.timeout(deadline):
                reply = await self._connections.send(
                    method, target, headers={**headers, **content}, body=body, tls=self._tls
                )
        except ssl.SSLCertVerificationError as error:
            raise UntrustedServer(f"{request}: {error}") from error
        except ConnectError as error:
            raise TransportError(f"{request}: {error}") from error
        except ResponseSizeError as error:
            raise Malformed(f"{request}: {error}") from error
        except TimeoutError as error:
            text = f"{request}: no response within {deadline:g} s"
            raise TransportError(text, maybe_applied=maybe_applied) from error
        except (OSError, ValueError, HTTPException) as error:
            text = f"{request}: {str(error) or type(error).__name__}"
            raise TransportError(text, maybe_applied=maybe_applied) from error
        kind = reply.headers.get("Content-Type", "").partition(";")[0]
        return RawResponse(reply.status, kind, reply.body, reply.headers.get("Location", ""))

    async def close(self) -> None:
        """Close every connection."""
        self._connections.close()
