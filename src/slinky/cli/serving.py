# SPDX-License-Identifier: Apache-2.0
"""Flags of every long-running command, and the process around it."""

from collections.abc import Iterable
from typing import Annotated

import typer

from slinky.kube.metrics_auth import metrics_server
from slinky.observe import log
from slinky.observe.process import Address, Main, ServerFactory, parse_address, run_process

Health = Annotated[str, typer.Option("--health-addr", help="Address of /healthz and /readyz, as HOST:PORT.")]
Metrics = Annotated[
    str, typer.Option("--metrics-addr", help="Address of /metrics, as HOST:PORT; 0 disables the metrics server.")
]
Secure = Annotated[
    bool,
    typer.Option("--metrics-secure", help="Serve metrics over TLS, to clients that RBAC allows to get /metrics."),
]
Level = Annotated[str, typer.Option("--log-level", help="Log level: debug, info, warning or error.")]


def serve_process(
    main: Main, level: str, health: str, metrics: str, *, secure: bool = False, more: Iterable[ServerFactory] = ()
) -> None:
    """Run a process with its health and metrics endpoints; exits with its code."""
    flags = {"--health-addr": health, "--metrics-addr": metrics}
    addresses = {flag: flag_address(address, flag) for flag, address in flags.items() if address != "0"}
    secure_address = addresses.pop("--metrics-addr", None) if secure else None
    if secure_address is not None and secure_address in addresses.values():
        raise typer.BadParameter("secure metrics need a port of their own", param_hint="--metrics-addr")
    if level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{level!r} is not debug, info, warning or error", param_hint="--log-level")
    log.setup_logging(level=level)
    servers = [*more, *([metrics_server(*secure_address)] if secure_address else [])]
    raise typer.Exit(run_process(main, addresses.values(), servers))


def flag_address(text: str, flag: str) -> Address:
    """Read the address of a flag. Raises `BadParameter`."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=flag) from error
