# SPDX-License-Identifier: Apache-2.0
"""`slinky doctor`: what is wrong with a Kubernetes and with a Slurm cluster, each finding with its fix."""

from typing import TYPE_CHECKING

import typer

from slinky.cli.access.connection import ConnectedCluster, open_cluster
from slinky.cli.access.reader import read_snapshot
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_app, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document
from slinky.insight.health_checks import FindingSeverity, HealthFinding, check_health
from slinky.insight.plain_text import plain
from slinky.slurm import SlurmError
from slinky.slurm.tokens import TokenError, read_claims

if TYPE_CHECKING:
    from slinky.cli.doctor.installation import Installation

#: Seconds of a token's lifetime below which it is reported.
TOKEN_SECONDS = 60
#: Characters of a finding.
FINDING_LIMIT = 1000


def doctor(options: ClusterOptions, output: Output = OutputFormat.TEXT) -> None:
    """Check a Slurm cluster and its Kubernetes, and say how to fix what is found.

    Without --url the Kubernetes is checked too: versions, rights, definitions, processes, webhooks, conditions of
    objects, storage, disruption budgets, network policies, external metrics. It can be run before an installation.
    Exit code 1 if there is an error.
    """
    run_command(_doctor(options, output))


async def _doctor(options: ClusterOptions, output: OutputFormat) -> None:
    findings: list[HealthFinding] = []
    fault: Exception | None = None
    has_cluster = True
    if not options.url:
        installation = await _read_installation(options)
        findings += _check_installation(installation)
        has_cluster = bool(options.cluster) or any(kind == "RestApi" for kind, _ in installation.objects)
    if has_cluster:
        try:
            async with open_cluster(options) as cluster:
                findings += await slurm_findings(cluster)
        except (CommandError, SlurmError) as error:
            # What was found in Kubernetes is often the cause, so that it is printed first.
            fault = error
    if findings or fault is None:
        _print(findings, output)
    if fault is not None:
        raise fault
    if any(finding.severity is FindingSeverity.ERROR for finding in findings):
        raise typer.Exit(int(ExitStatus.FAILED))


async def slurm_findings(cluster: ConnectedCluster) -> list[HealthFinding]:
    """What is wrong with a Slurm cluster. Raises `SlurmError`."""
    snapshot = await read_snapshot(cluster.client)
    return [*check_token(cluster.client.session.tokens.token(), snapshot.now), *check_health(snapshot)]


async def _read_installation(options: ClusterOptions) -> "Installation":
    # Imported here: a plain Slurm needs no Kubernetes client.
    from slinky.cli.access.kubernetes import open_kubernetes
    from slinky.cli.doctor.installation import read_installation

    async with open_kubernetes(options) as kube:
        return await read_installation(kube, options.namespace)


def _check_installation(installation: "Installation") -> tuple[HealthFinding, ...]:
    from slinky.cli.doctor.installation_checks import check_installation

    return check_installation(installation)


def format_findings(findings: list[HealthFinding]) -> str:
    """One line for each finding."""
    lines = [
        plain(f"{finding.severity.value}: {finding.sentence} {finding.fix}", FINDING_LIMIT) for finding in findings
    ]
    return "\n".join(lines or ["no problem found"])


def _print(findings: list[HealthFinding], output: OutputFormat) -> None:
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        documents = [
            {"severity": finding.severity.value, "check": finding.check, "text": finding.sentence, "fix": finding.fix}
            for finding in findings
        ]
        print_document(documents, output)
    elif output is OutputFormat.NAME:
        for finding in findings:
            typer.echo(f"{finding.severity.value}/{finding.check}")
    else:
        typer.echo(format_findings(findings))


def check_token(token: str, now: float) -> list[HealthFinding]:
    """A token that ends soon: the next request of a script would fail."""
    try:
        expires = read_claims(token).expires
    except TokenError:
        return []
    if expires is None or expires - now > TOKEN_SECONDS:
        return []
    sentence = f"The token expires in {max(int(expires - now), 0)} seconds."
    return [
        HealthFinding(FindingSeverity.WARNING, "token", sentence, "Get another one, for example with `scontrol token`.")
    ]


app = cluster_app(doctor)
