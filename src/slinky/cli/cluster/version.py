# SPDX-License-Identifier: Apache-2.0
"""`slinky version`: the versions of this command, of Slurm, and whether they fit together."""

from typing import Annotated, Any

import typer

from slinky import __version__
from slinky.cli.cluster.command import ClusterOptions, cluster_app, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document


def version(
    options: ClusterOptions,
    client: Annotated[bool, typer.Option("--client", help="Only the version of this command.")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Print the versions of this command and of Slurm."""
    if client:
        _print({"client": __version__}, output)
        return
    run_command(_version(options, output))


async def _version(options: ClusterOptions, output: OutputFormat) -> None:
    from slinky.cli.access.connection import open_cluster  # noqa: PLC0415 -- keeps the start of the command fast
    from slinky.slurm import DataParserVersion  # noqa: PLC0415

    async with open_cluster(options) as cluster:
        parser = await cluster.client.version()
        await cluster.client.ping()
        facts: dict[str, Any] = {
            "client": __version__,
            "slurm": cluster.client.session.server.release,
            "cluster": cluster.client.session.server.cluster,
            "data parser": str(parser),
            "newest known data parser": str(max(DataParserVersion)),
        }
    if parser is not max(DataParserVersion):
        facts["skew"] = "Slurm is older than this command; what it does not serve is left out"
    _print(facts, output)


def _print(facts: dict[str, Any], output: OutputFormat) -> None:
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_document(facts, output)
        return
    for name, value in facts.items():
        typer.echo(value if output is OutputFormat.NAME else f"{name}: {value}")


app = cluster_app(version)
