# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics of the scheduler that slurmctld itself serves: `/metrics/scheduler` on its own port.

slurmctld serves them if slurm.conf has `MetricsType=metrics/openmetrics`. This endpoint copies counters and takes no
lock; the other native endpoints lock the nodes or jobs of slurmctld, and this module does not know them. A standby
answers with a redirection to the primary, which is followed once.
"""

import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from slinky.bounds import NATIVE_METRICS_MAX
from slinky.slurm.errors import AuthError, Malformed, TransportError
from slinky.slurm.transport.decode import RawResponse
from slinky.slurm.transport.http import HttpTransport
from slinky.slurm.transport.request_transport import RequestRecord

PATH = "/metrics/scheduler"
DEADLINE = 10.0
#: Statuses with which slurmctld refuses a caller; it answers 500 to a user without the permission.
_REFUSALS = frozenset({401, 403, 511})
_NOT_PERMITTED = b"Operation not permitted"
_REFUSED_HINT = "with PrivateData or MetricsAuthUsers in slurm.conf, slurmctld does not serve its metrics to everyone"
_TYPE_HINT = "slurmctld serves its metrics with MetricsType=metrics/openmetrics in slurm.conf"


class NativeMetrics:
    """The metrics of the scheduler of one slurmctld, or of a pair of which one stands by."""

    def __init__(self, url: str, *, observe: Callable[[RequestRecord], None] | None = None) -> None:
        """`url` is `http://host:port` of slurmctld. Requests carry no token."""
        self._observe = observe
        self._transport = HttpTransport(url, connections=1, observe=observe)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    async def read(self) -> Mapping[str, float]:
        """The metrics by name. Raises a `SlurmError` if slurmctld does not serve them."""
        response = await self._get(self._transport)
        if response.status == 303:
            async with HttpTransport(redirect_base(response.location), connections=1, observe=self._observe) as primary:
                response = await self._get(primary)
        if response.status in _REFUSALS or _NOT_PERMITTED in response.body:
            raise AuthError(f"GET {PATH}: {response.status}: {_REFUSED_HINT}")
        if response.status != 200:
            answer = bytes(response.body[:200]).decode("utf-8", "replace").strip().replace("\n", " ")
            raise TransportError(f"GET {PATH}: {response.status}: {answer or 'no text'}; {_TYPE_HINT}")
        return parse_metrics(bytes(response.body).decode("utf-8", "replace"))

    async def _get(self, transport: HttpTransport) -> RawResponse:
        return await transport.send("GET", PATH, headers={}, deadline=DEADLINE)


def redirect_base(location: str) -> str:
    """The scheme, host and port of a redirection to the same path elsewhere. Raises `Malformed` for any other."""
    try:
        parts = urlsplit(location)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.path == PATH and "@" not in parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        pass
    raise Malformed(f"GET {PATH}: a redirection to {location[:200]!r}, which is not {PATH} of another slurmctld")


def parse_metrics(text: str) -> Mapping[str, float]:
    """The metrics of an answer that have no label; lines that are none are left out."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if not name.isidentifier() or len(values) >= NATIVE_METRICS_MAX:
            continue
        try:
            value = float(number)
        except ValueError:
            continue
        if math.isfinite(value):
            values[name] = value
    if not values:
        raise Malformed(f"GET {PATH}: the answer has no metric")
    return values
