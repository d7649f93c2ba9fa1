# SPDX-License-Identifier: Apache-2.0
"""The long-running verbs: `slinky operator`, `webhook`, `bridge` and `bridge-admission`.

They take the flags that existing installations pass, turn them into settings, and leave the rest to the package.
"""

from pathlib import Path
from typing import Annotated

import typer

from slinky.bridge import app as bridge_app
from slinky.bridge import config as bridge_config
from slinky.bridge import webhook as bridge_webhook
from slinky.cli.familiar import Familiar
from slinky.cli.output import explained
from slinky.kube import Key
from slinky.kube.access import guarded
from slinky.observe import log
from slinky.observe.process import Address, Main, run
from slinky.operator import app as operator_app
from slinky.operator.images import Images
from slinky.operator.settings import Settings as OperatorSettings
from slinky.webhook import server as webhook_server

Health = Annotated[str, typer.Option("--health-addr", help="Where /healthz and /readyz answer, as HOST:PORT.")]
Metrics = Annotated[str, typer.Option("--metrics-addr", help="Where /metrics answers, as HOST:PORT; 0 turns it off.")]
Secure = Annotated[bool, typer.Option("--metrics-secure", help="Metrics over TLS, for those who may get /metrics.")]
Level = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
Config = Annotated[Path, typer.Option("--config", help="The configuration file.")]
Workers = Annotated[int, typer.Option(help="Objects of that kind worked on at once.", min=1)]
WORKERS = 4


def operator(
    health_addr: Health = ":8081",
    metrics_addr: Metrics = ":8080",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    leader_elect: Annotated[bool, typer.Option(help="Of several replicas, let one work.")] = False,
    leader_elect_namespace: Annotated[str, typer.Option(help="Where the Lease is.")] = "",
    namespaces: Annotated[str, typer.Option(help="Work in these only, separated by commas.")] = "",
    propagated_node_conditions: Annotated[str, typer.Option(help="Node conditions named in drain reasons.")] = "",
    image: Annotated[str, typer.Option(help="Image of a daemon when none is named, with {daemon} in it.")] = "",
    pod_addresses: Annotated[bool, typer.Option(help="Reach slurmrestd by pod address, from outside.")] = False,
    kubeconfig: Annotated[str, typer.Option(help="A kubeconfig to use instead of the usual places.")] = "",
    trial_seconds: Annotated[float, typer.Option(help="How long a trial may hold a configuration up; 0: none.")] = 120,
    key_settle: Annotated[float, typer.Option(help="Seconds for a changed key to reach every pod.")] = 90,
    key_retire: Annotated[float, typer.Option(help="Seconds until credentials of an old key have ended.")] = 300,
    accounting_workers: Workers = WORKERS,
    controller_workers: Workers = WORKERS,
    loginset_workers: Workers = WORKERS,
    nodeset_workers: Workers = WORKERS,
    restapi_workers: Workers = WORKERS,
    token_workers: Workers = WORKERS,
    slurmclient_workers: Workers = WORKERS,
) -> None:
    """Run Slurm clusters on Kubernetes."""
    settings = OperatorSettings(
        namespaces=_listed(namespaces),
        propagated_node_conditions=_listed(propagated_node_conditions),
        leader_elect=leader_elect,
        leader_elect_namespace=leader_elect_namespace,
        images=Images(image) if image else Images(),
        pod_addresses=pod_addresses,
        kubeconfig=kubeconfig,
        trial_seconds=trial_seconds,
        key_settle=key_settle,
        key_retire=key_retire,
        workers={
            "accounting": accounting_workers,
            "controller": controller_workers,
            "loginset": loginset_workers,
            "nodeset": nodeset_workers,
            "restapi": restapi_workers,
            "token": token_workers,
            "slurmclient": slurmclient_workers,
        },
    )
    doors = (health_addr, metrics_addr)
    _serve(lambda health: operator_app.main(settings, health), log_level, *doors, secure=metrics_secure)


def webhook(
    server_addr: Annotated[str, typer.Option(help="Where the API server asks, as HOST:PORT.")] = ":9443",
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    namespace: Annotated[str, typer.Option(help="Where the Secret and the Service are.")] = "slinky",
    service: Annotated[str, typer.Option(help="The Service in front.")] = "slurm-operator-webhook",
    configuration: Annotated[str, typer.Option(help="The webhook configurations to keep trusted.")] = (
        "slurm-operator-webhook"
    ),
    secret: Annotated[str, typer.Option(help="Where self-managed certificates are kept.")] = (
        "slurm-operator-webhook-ca"  # noqa: S107 - a name
    ),
    certificates: Annotated[Path | None, typer.Option(help="A folder whose certificates others renew.")] = None,
) -> None:
    """Check and complete our kinds before they are stored."""
    address = _address(server_addr, "--server-addr")
    settings = webhook_server.Settings(
        namespace=namespace,
        service=service,
        configuration=configuration,
        secret=secret,
        certificates=certificates,
        host=address[0],
        port=address[1],
    )
    doors = (health_addr, metrics_addr)
    _serve(lambda health: webhook_server.main(settings, health), log_level, *doors, secure=metrics_secure)


def bridge(
    config: Config, health_addr: Health = ":8081", metrics_addr: Metrics = ":8080", log_level: Level = "info"
) -> None:
    """Make Slurm the scheduler of chosen pods."""
    settings = _bridge_settings(config)
    _serve(lambda health: bridge_app.main(settings, health), log_level, health_addr, metrics_addr)


def bridge_admission(
    config: Config,
    certificates: Annotated[Path | None, typer.Option(help="A folder whose certificates others renew.")] = None,
    namespace: Annotated[str, typer.Option(help="Where the Secret and the Service are.")] = "slurm",
    name: Annotated[str, typer.Option(help="Name of the Service and of the webhook configurations.")] = (
        "slurm-bridge-admission"
    ),
    secret: Annotated[str, typer.Option(help="Where self-managed certificates are kept.")] = (
        "slurm-bridge-admission-tls"  # noqa: S107 - a name
    ),
    port: Annotated[int, typer.Option(help="Where the API server asks.")] = 9443,
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    log_level: Level = "info",
) -> None:
    """Check the options of pods that Slurm will schedule."""
    settings = _bridge_settings(config)
    own = bridge_webhook.Own(Key(namespace, name), Key(namespace, secret), name)
    _serve(
        lambda health: bridge_webhook.main(settings, certificates or own, port=port, health=health),
        log_level,
        health_addr,
        metrics_addr,
    )


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command(cls=Familiar)(operator)
    app.command(cls=Familiar)(webhook)
    app.command()(bridge)
    app.command()(bridge_admission)


def _serve(main: Main, level: str, health: str, metrics: str, *, secure: bool = False) -> None:
    flags = {"--health-addr": health, "--metrics-addr": metrics}
    found = {flag: _address(door, flag) for flag, door in flags.items() if door != "0"}
    guard = found.pop("--metrics-addr", None) if secure else None
    if guard is not None and guard in found.values():
        raise typer.BadParameter("metrics need a port of their own to be secure", param_hint="--metrics-addr")
    if level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{level!r} is not debug, info, warning or error", param_hint="--log-level")
    log.setup(level=level)
    raise typer.Exit(run(main, found.values(), [guarded(*guard)] if guard else []))


def _bridge_settings(config: Path) -> bridge_config.Settings:
    with explained(bridge_config.ConfigError):
        settings, unknown = bridge_config.load(config)
    for key in unknown:
        typer.echo(f"slinky: {config}: {key} means nothing here and is ignored", err=True)
    return settings


def _address(text: str, flag: str) -> Address:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT or :PORT", param_hint=flag)
    return host or "0.0.0.0", int(port)  # noqa: S104 - the kubelet and Prometheus come from outside the pod


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for word in text.split(",") if (part := word.strip()))
