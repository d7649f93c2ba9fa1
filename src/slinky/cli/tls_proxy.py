# SPDX-License-Identifier: Apache-2.0
"""`slinky tls-proxy`. It is a module of its own, because a sidecar should start fast."""

from pathlib import Path
from typing import Annotated

import typer

from slinky.api.names.wellknown import SLURMRESTD_LOOPBACK_PORT
from slinky.cli.serving import Health, Level, Metrics, flag_address, serve_process
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY
from slinky.tlsproxy.app import TlsProxySettings, main

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("tls-proxy")
def tls_proxy(
    server_addr: Annotated[str, typer.Option(help="Address at which clients connect, as HOST:PORT.")] = ":6820",
    upstream: Annotated[
        str, typer.Option(help="Address of slurmrestd, as HOST:PORT; the connection to it has no TLS.")
    ] = f"127.0.0.1:{SLURMRESTD_LOOPBACK_PORT}",
    certificates: Annotated[
        Path, typer.Option(help="Folder with tls.crt and tls.key; they are read again when they change.")
    ] = Path("/run/tls"),
    required: Annotated[bool, typer.Option(help="Refuse connections without TLS.")] = False,
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    log_level: Level = "info",
) -> None:
    """Terminate TLS in front of slurmrestd."""
    host, port = flag_address(server_addr, "--server-addr")
    settings = TlsProxySettings(
        host=host,
        port=port,
        upstream=flag_address(upstream, "--upstream"),
        certificate=certificates / CERTIFICATE,
        key=certificates / PRIVATE_KEY,
        required=required,
    )
    serve_process(lambda health: main(settings, health), log_level, health_addr, metrics_addr)
