# SPDX-License-Identifier: Apache-2.0
"""The process `slinky tls-proxy`: certificate files that are read again, readiness, and the proxy."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from slinky.kube.tls import server_context
from slinky.observe import Clock, ExplainedError, Health, Log, SystemClock
from slinky.tlsproxy.proxy import TlsProxy

log = Log("slinky.tlsproxy.app")

#: Seconds between two checks of the certificate files and of the server.
CHECK_SECONDS = 2.0


class TlsProxyError(ExplainedError):
    """A setting of the proxy cannot be used."""


@dataclass(frozen=True)
class TlsProxySettings:
    """Settings of `slinky tls-proxy`."""

    host: str
    port: int
    upstream: tuple[str, int]
    certificate: Path
    key: Path
    required: bool = False
    """Refuse connections without TLS."""


async def main(settings: TlsProxySettings, health: Health, clock: Clock | None = None) -> None:
    """Serve until cancelled."""
    try:
        context, reload_certificate = server_context(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise TlsProxyError(f"{settings.certificate} and {settings.key} cannot be loaded: {error}") from error
    proxy, is_open = TlsProxy(settings.upstream, context, required=settings.required), False
    address = ":".join(map(str, settings.upstream))
    health.add_readiness_check("upstream", lambda: None if is_open else f"nothing accepts connections at {address}")
    clock = clock or SystemClock()
    async with proxy.serving(settings.host, settings.port) as port:
        log.info("proxy is serving", port=port, upstream=address, required=settings.required)
        while True:
            is_open = await proxy.is_upstream_open()
            await clock.sleep(CHECK_SECONDS)
            reload_certificate()
