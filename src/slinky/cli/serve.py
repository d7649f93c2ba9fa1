# SPDX-License-Identifier: Apache-2.0
"""The long-running verbs: `slinky operator`, `webhook`, `bridge` and `bridge-admission`.

They take the flags that existing installations pass, turn them into settings, and leave the rest to the package.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from slinky.api.names.wellknown import PROFILE_PORT
from slinky.bridge import app as bridge_app
from slinky.bridge import config as bridge_config
from slinky.bridge.admission import server as bridge_webhook
from slinky.cli.compat_flags import CompatFlags
from slinky.cli.output import explained
from slinky.kube import Key
from slinky.kube.metrics_auth import metrics_server
from slinky.observe import log
from slinky.observe.process import Address, Main, ServerFactory, run_process
from slinky.observe.profile import profile_server
from slinky.operator import app as operator_app
from slinky.operator.build.images import Images
from slinky.operator.settings import OperatorSettings
from slinky.webhook import server as webhook_server

Health = Annotated[str, typer.Option("--health-addr", help="Where /healthz and /readyz answer, as HOST:PORT.")]
Metrics = Annotated[str, typer.Option("--metrics-addr", help="Where /metrics answers, as HOST:PORT; 0 turns it off.")]
Secure = Annotated[
    bool, typer.Option("--metrics-secure", help="Serve metrics over TLS, to those whom RBAC allows to get /metrics.")
]
Level = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
Config = Annotated[Path, typer.Option("--config", help="The configuration file.")]
Workers = Annotated[int, typer.Option(help="How many objects of that kind are worked on at once.", min=1)]
WORKERS = 4


def operator(
    health_addr: Health = ":8081",
    metrics_addr: Metrics = ":8080",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    leader_elect: Annotated[
        bool, typer.Option(help="Work only while holding the leader Lease; for several replicas.")
    ] = False,
    leader_elect_namespace: Annotated[str, typer.Option(help="Namespace of the Lease; the pod's own if empty.")] = "",
    profile: Annotated[bool, typer.Option(help="Serve /debug/stacks and /debug/profile.")] = False,
    profile_addr: Annotated[str, typer.Option(help="Where these answer, as HOST:PORT.")] = f"localhost:{PROFILE_PORT}",
    namespaces: Annotated[str, typer.Option(help="Namespaces to work in, separated by commas; all if empty.")] = "",
    propagated_node_conditions: Annotated[
        str, typer.Option(help="Node conditions, separated by commas, to name in drain reasons.")
    ] = "",
    image: Annotated[
        str, typer.Option(help="Image for daemons without one; {daemon} becomes slurmctld and so on.")
    ] = "",
    pod_addresses: Annotated[
        bool, typer.Option(help="Reach slurmrestd by pod address, not by Service: from outside.")
    ] = False,
    kubeconfig: Annotated[
        str, typer.Option(help="A kubeconfig; else $KUBECONFIG, the service account, ~/.kube/config.")
    ] = "",
    trial_seconds: Annotated[
        float, typer.Option(help="Longest delay by the trial of a configuration; 0: no trial.")
    ] = 120,
    key_settle: Annotated[float, typer.Option(help="Seconds that a changed key takes to reach every pod.")] = 90,
    key_retire: Annotated[
        float, typer.Option(help="Seconds until credentials signed with an old key have expired.")
    ] = 300,
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
    servers = (health_addr, metrics_addr)
    more = [profile_server(*_address(profile_addr, "--profile-addr"))] if profile else []
    _serve(lambda health: operator_app.main(settings, health), log_level, *servers, secure=metrics_secure, more=more)


def webhook(
    server_addr: Annotated[str, typer.Option(help="Where the API server calls the webhook, as HOST:PORT.")] = ":9443",
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    metrics_secure: Secure = False,
    log_level: Level = "info",
    namespace: Annotated[str, typer.Option(help="Namespace of the Secret and the Service.")] = "slinky",
    service: Annotated[str, typer.Option(help="The Service in front of the webhook.")] = "slurm-operator-webhook",
    configuration: Annotated[
        str, typer.Option(help="Name of the webhook configurations whose CA bundle is kept up to date.")
    ] = ("slurm-operator-webhook"),
    secret: Annotated[str, typer.Option(help="Secret in which self-managed certificates are kept.")] = (
        "slurm-operator-webhook-ca"  # noqa: S107 - a name
    ),
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with tls.crt and tls.key that somebody else renews.")
    ] = None,
) -> None:
    """Check and complete our kinds before they are stored."""
    address = _address(server_addr, "--server-addr")
    settings = webhook_server.WebhookSettings(
        namespace=namespace,
        service=service,
        configuration=configuration,
        secret=secret,
        certificates=certificates,
        host=address[0],
        port=address[1],
    )
    servers = (health_addr, metrics_addr)
    _serve(lambda health: webhook_server.main(settings, health), log_level, *servers, secure=metrics_secure)


def bridge(
    config: Config, health_addr: Health = ":8081", metrics_addr: Metrics = ":8080", log_level: Level = "info"
) -> None:
    """Make Slurm the scheduler of chosen pods."""
    settings = _bridge_settings(config)
    _serve(lambda health: bridge_app.main(settings, health), log_level, health_addr, metrics_addr)


def bridge_admission(
    config: Config,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder with tls.crt and tls.key that somebody else renews.")
    ] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the Secret and the Service.")] = "slurm",
    name: Annotated[str, typer.Option(help="Name of the Service and of the webhook configurations.")] = (
        "slurm-bridge-admission"
    ),
    secret: Annotated[str, typer.Option(help="Secret in which self-managed certificates are kept.")] = (
        "slurm-bridge-admission-tls"  # noqa: S107 - a name
    ),
    port: Annotated[int, typer.Option(help="The port on which the API server calls the webhook.")] = 9443,
    health_addr: Health = ":8081",
    metrics_addr: Metrics = "0",
    log_level: Level = "info",
) -> None:
    """Check the options of pods that Slurm will schedule."""
    settings = _bridge_settings(config)
    own = bridge_webhook.ManagedCertificates(Key(namespace, name), Key(namespace, secret), name)
    _serve(
        lambda health: bridge_webhook.main(settings, certificates or own, port=port, health=health),
        log_level,
        health_addr,
        metrics_addr,
    )


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    for verb in (operator, webhook, bridge, bridge_admission):
        kind = CompatFlags if verb in (operator, webhook) else None
        app.command(verb.__name__.replace("_", "-"), cls=kind)(verb)


def _serve(
    main: Main, level: str, health: str, metrics: str, *, secure: bool = False, more: Iterable[ServerFactory] = ()
) -> None:
    flags = {"--health-addr": health, "--metrics-addr": metrics}
    found = {flag: _address(door, flag) for flag, door in flags.items() if door != "0"}
    guard = found.pop("--metrics-addr", None) if secure else None
    if guard is not None and guard in found.values():
        raise typer.BadParameter("metrics need a port of their own to be secure", param_hint="--metrics-addr")
    if level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{level!r} is not debug, info, warning or error", param_hint="--log-level")
    log.setup_logging(level=level)
    raise typer.Exit(run_process(main, found.values(), [*more, *([metrics_server(*guard)] if guard else [])]))


def _bridge_settings(config: Path) -> bridge_config.BridgeSettings:
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
