# SPDX-License-Identifier: Apache-2.0
"""`slinky version`: the versions of this command, of Slurm and Kubernetes, and whether they fit together."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slinky import __version__
from slinky.cli.cluster.command import ClusterOptions, cluster_app, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document
from slinky.insight.plain_text import plain

if TYPE_CHECKING:
    from slinky.kube import KubeClient


def version(
    options: ClusterOptions,
    client: Annotated[bool, typer.Option("--client", help="Only the version of this command.")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Print the versions of this command, of Slurm and, without --url, of Kubernetes and our processes in it."""
    if client:
        _print({"client": __version__}, output)
        return
    try:
        run_command(_version(options, output))
    except typer.Exit:
        # The version of this command is known although no server answers.
        _print({"client": __version__}, output)
        raise


async def _version(options: ClusterOptions, output: OutputFormat) -> None:
    from slinky.cli.access.connection import open_cluster
    from slinky.slurm import DataParserVersion

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
        if cluster.kube is not None:
            facts |= await read_server_versions(cluster.kube)
    skew = find_skew(facts)
    if parser is not max(DataParserVersion):
        skew.insert(0, "Slurm is older than this command; what it does not serve is left out")
    if skew:
        facts["skew"] = "; ".join(skew)
    _print(facts, output)


async def read_server_versions(kube: "KubeClient") -> dict[str, str]:
    """The versions of Kubernetes and of our processes in it, as far as they can be read."""
    import msgspec

    from slinky.api.names.wellknown import PROCESSES
    from slinky.kube import DEPLOYMENTS, Forbidden

    facts = {"kubernetes": str(msgspec.json.decode(await kube.send("GET", "/version"))["gitVersion"])}
    try:
        found = await kube.list(DEPLOYMENTS, labels=f"app.kubernetes.io/name in ({', '.join(PROCESSES)})")
    except Forbidden:
        return facts | {"processes": "not known: no permission to list deployments"}
    for item in found:
        labels = item.metadata.labels
        facts[labels["app.kubernetes.io/name"]] = plain(labels.get("app.kubernetes.io/version", "unknown"), 40)
    return facts


def find_skew(facts: dict[str, Any]) -> list[str]:
    """Processes of another version than this command."""
    return [
        f"{name} is {version}, this command is {facts['client']}"
        for name, version in facts.items()
        if name.startswith("slurm-") and version not in ("unknown", facts["client"])
    ]


def _print(facts: dict[str, Any], output: OutputFormat) -> None:
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_document(facts, output)
        return
    for name, value in facts.items():
        typer.echo(value if output is OutputFormat.NAME else f"{name}: {value}")


app = cluster_app(version)
