# SPDX-License-Identifier: Apache-2.0
"""What the library needs of an HTTP client: the protocol `RequestTransport`, which each client implements."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from slinky.slurm.transport.decode import RawResponse

#: slurmrestd has a handful of threads; requests on more connections only queue there.
CONNECTIONS = 8

Query = Sequence[tuple[str, str]]
#: A TLS context, or a function that returns the current one; without a context the authorities of the system are
#: trusted. A connection that another context has verified is not used again.
TlsContext = ssl.SSLContext | Callable[[], ssl.SSLContext | None]


class RequestRecord(NamedTuple):
    """Method, path, result and cost of one request, for metrics and benchmarks."""

    method: str
    path: str
    status: int | None
    seconds: float
    received: int


class RequestTransport(Protocol):
    """Sends requests to one slurmrestd."""

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

    async def close(self) -> None:
        """Close every connection."""


def build_query(**values: str | int | None) -> Query:
    """The parameters of a query string, without those that are None."""
    return [(name, str(value)) for name, value in values.items() if value is not None]
