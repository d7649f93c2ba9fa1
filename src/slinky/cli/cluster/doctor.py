# SPDX-License-Identifier: Apache-2.0
"""`slinky doctor`: what is wrong with a cluster, each finding with its fix."""

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.access.reader import read_snapshot
from slinky.cli.cluster.command import ClusterOptions, ExitStatus, cluster_app, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document
from slinky.insight.health_checks import FindingSeverity, HealthFinding, check_health
from slinky.slurm.tokens import TokenError, read_claims

#: Seconds of a token's lifetime below which it is reported.
TOKEN_SECONDS = 60


def doctor(options: ClusterOptions, output: Output = OutputFormat.TEXT) -> None:
    """Check a Slurm cluster and say how to fix what is found. Exit code 1 if there is an error."""
    run_command(_doctor(options, output))


async def _doctor(options: ClusterOptions, output: OutputFormat) -> None:
    async with open_cluster(options) as cluster:
        snapshot = await read_snapshot(cluster.client)
        token = cluster.client.session.tokens.token()
    findings = [*check_token(token, snapshot.now), *check_health(snapshot)]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_document(
            [{"severity": f.severity.value, "check": f.check, "text": f.sentence, "fix": f.fix} for f in findings],
            output,
        )
    else:
        for finding in findings:
            typer.echo(f"{finding.severity.value}: {finding.sentence} {finding.fix}")
        if not findings:
            typer.echo("no problem found")
    if any(finding.severity is FindingSeverity.ERROR for finding in findings):
        raise typer.Exit(int(ExitStatus.FAILED))


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
