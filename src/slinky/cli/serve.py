# SPDX-License-Identifier: Apache-2.0
"""The long-running commands: `slinky operator`, `webhook`, `bridge`, `bridge-admission`, `exporter` and `web`.

Each turns its flags into settings and runs its package. `operator` and `webhook` also accept the flags of
slurm-operator.
"""

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from slinky.api.names.wellknown import PROFILE_PORT
from slinky.bridge import app as bridge_app
from slinky.bridge import config as bridge_config
from slinky.bridge.admission import server as bridge_webhook
from slinky.cli.compat_flags import CompatFlags
from slinky.cli.output import explained
from slinky.cli.serving import Health, Level, Metrics, Secure, flag_address, serve_process
from slinky.cli.settings_flags import build_settings, with_settings
from slinky.exporter import app as exporter_app
from slinky.exporter.settings import ExporterSettings
from slinky.kube import Key
from slinky.observe.profile import profile_server
from slinky.operator import app as operator_app
from slinky.operator.settings import OperatorSettings
from slinky.web import app as web_app
from slinky.web.settings import WebSettings
from slinky.webhook import server as webhook_server

Config = Annotated[Path, typer.Option("--config", help="Configuration file.")]
Namespace = Annotated[
    str, typer.Option("--namespace", help="Namespace of the Service and of the Secret with the certificates.")
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        "--certificates",
        help="Folder with tls.crt and tls.key that another program renews; by default the webhook manages its own.",
    ),
]


@with_settings(OperatorSettings)
def operator(
    health_addr: Health = ":8081",
    metrics_addr: Metrics = ":8080",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    profile: Annotated[bool, typer.Option(help="Serve /debug/stacks and /debug/profile.")] = False,
    profile_addr: Annotated[
        str, typer.Option(help="Address of /debug/stacks and /debug/profile, as HOST:PORT.")
    ] = f"localhost:{PROFILE_PORT}",
    **fields: Any,
) -> None:
    """Run Slurm clusters on Kubernetes."""
    settings = build_settings(OperatorSettings, fields)
    servers = (health_addr, metrics_addr)
    more = [profile_server(*flag_address(profile_addr, "--profile-addr"))] if profile else []
    serve_process(
        lambda health: operator_app.main(settings, health), log_level, *servers, secure=metrics_secure, more=more
    )


def webhook(
    server_addr: Annotated[
        str, typer.Option(help="Address at which the API server calls the webhook, as HOST:PORT.")
    ] = ":9443",
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    namespace: Annotated[
        str, typer.Option(help="Namespace of the Service and of the Secret with the certificates.")
    ] = "slinky",
    service: Annotated[str, typer.Option(help="Service of the webhook.")] = "slurm-operator-webhook",
    configuration: Annotated[
        str, typer.Option(help="Name of the webhook configurations whose CA bundle the webhook updates.")
    ] = ("slurm-operator-webhook"),
    secret: Annotated[str, typer.Option(help="Secret of the certificates that the webhook manages itself.")] = (
        "slurm-operator-webhook-ca"  # noqa: S107 - a name
    ),
    certificates: Certificates = None,
    external_metrics_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Serve external metrics of NodeSets to autoscalers on this port; 0 disables it."
        ),
    ] = 0,
) -> None:
    """Validate and default the operator's kinds when they are created or changed."""
    address = flag_address(server_addr, "--server-addr")
    settings = webhook_server.WebhookSettings(
        namespace=namespace,
        service=service,
        configuration=configuration,
        secret=secret,
        certificates=certificates,
        host=address[0],
        port=address[1],
        external_metrics_port=external_metrics_port,
    )
    servers = (health_addr, metrics_addr)
    serve_process(lambda health: webhook_server.main(settings, health), log_level, *servers, secure=metrics_secure)


def bridge(
    config: Config, health_addr: Health = ":8081", metrics_addr: Metrics = ":8080", log_level: Level = "info"
) -> None:
    """Schedule selected pods with Slurm."""
    settings = _bridge_settings(config)
    serve_process(lambda health: bridge_app.main(settings, health), log_level, health_addr, metrics_addr)


def bridge_admission(
    config: Config,
    certificates: Certificates = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of the Service and of the Secret with the certificates.")
    ] = "slurm",
    name: Annotated[str, typer.Option(help="Name of the Service and of the webhook configurations.")] = (
        "slurm-bridge-admission"
    ),
    secret: Annotated[str, typer.Option(help="Secret of the certificates that the webhook manages itself.")] = (
        "slurm-bridge-admission-tls"  # noqa: S107 - a name
    ),
    port: Annotated[int, typer.Option(help="Port at which the API server calls the webhook.")] = 9443,
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    log_level: Level = "info",
) -> None:
    """Validate the options of pods that Slurm schedules."""
    settings = _bridge_settings(config)
    own = bridge_webhook.ManagedCertificates(Key(namespace, name), Key(namespace, secret), name)
    serve_process(
        lambda health: bridge_webhook.main(settings, certificates or own, port=port, health=health),
        log_level,
        health_addr,
        metrics_addr,
    )


@with_settings(ExporterSettings)
def exporter(
    health_addr: Health = ":8081", metrics_addr: Metrics = ":8080", log_level: Level = "info", **fields: Any
) -> None:
    """Export metrics of a Slurm cluster to Prometheus."""
    settings = build_settings(ExporterSettings, fields)
    serve_process(lambda health: exporter_app.main(settings, health), log_level, health_addr, metrics_addr)


@with_settings(ExporterSettings)
@with_settings(WebSettings)
def web(health_addr: Health = "0", metrics_addr: Metrics = "0", log_level: Level = "info", **fields: Any) -> None:
    """Show a Slurm cluster in a browser, read-only; with --metrics-addr it is also the exporter."""
    page = {field: fields.pop(field) for field in WebSettings.__struct_fields__}
    settings, web_settings = build_settings(ExporterSettings, fields), build_settings(WebSettings, page)
    companions = [functools.partial(web_app.main, web_settings)]
    serve_process(
        lambda health: exporter_app.main(settings, health, companions=companions), log_level, health_addr, metrics_addr
    )


app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
for _command in (operator, webhook, bridge, bridge_admission, exporter, web):
    _class = CompatFlags if _command in (operator, webhook) else None
    app.command(_command.__name__.replace("_", "-"), cls=_class)(_command)


def _bridge_settings(config: Path) -> bridge_config.BridgeSettings:
    with explained(bridge_config.ConfigError):
        settings, unknown = bridge_config.load(config)
    for key in unknown:
        typer.echo(f"slinky: {config}: unknown key {key} is ignored", err=True)
    return settings
