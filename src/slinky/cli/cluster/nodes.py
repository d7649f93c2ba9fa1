# SPDX-License-Identifier: Apache-2.0
"""`slinky nodes`: nodes with what is free on them, and who drained them and why."""

from typing import Annotated, Any

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.cluster.command import ClusterOptions, cluster_app, not_found, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document, print_rows
from slinky.insight.job_requirements import capacity, free
from slinky.insight.plain_text import megabytes
from slinky.insight.queue_snapshot import host_names
from slinky.slurm.hostlist import natural_sort_key

COLUMNS = ("NODE", "STATE", "CPUS", "MEMORY", "GRES", "PARTITIONS", "REASON")
WIDE_COLUMNS = (*COLUMNS, "FEATURES", "VERSION")


def nodes(
    options: ClusterOptions,
    names: Annotated[list[str] | None, typer.Argument(help="Nodes, as hostlists; by default all.")] = None,
    partition: Annotated[
        str, typer.Option("--partition", "-p", help="Only nodes of these partitions, separated by commas.")
    ] = "",
    states: Annotated[
        str, typer.Option("--states", "-t", help="Only nodes with one of these states, such as idle,drain.")
    ] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """List nodes: free and total CPUs, memory and devices, and who drained them and why."""
    run_command(_nodes(options, names or [], (partition, states), output))


async def _nodes(options: ClusterOptions, names: list[str], filters: tuple[str, str], output: OutputFormat) -> None:
    async with open_cluster(options) as cluster:
        listing = await cluster.client.nodes()
    hosts = {host.name: host for host in (listing.items if listing else ())}
    wanted = {name for text in names for name in host_names(text)}
    for name in sorted(wanted):
        if name not in hosts:
            raise not_found("node", name, list(hosts))
    partitions, states = (set(filter(None, text.split(","))) for text in filters)
    words = {state.upper() for state in states}
    shown = [
        host
        for name, host in sorted(hosts.items(), key=lambda item: natural_sort_key(item[0]))
        if (not wanted or name in wanted)
        and (not partitions or partitions & set(host.partitions))
        and (not words or words & set(host.state.words))
    ]
    if output is OutputFormat.NAME:
        for host in shown:
            typer.echo(f"node/{host.name}")
        return
    rows = [_row(host) for host in shown]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_document(rows, output)
    else:
        print_rows(WIDE_COLUMNS if output is OutputFormat.WIDE else COLUMNS, rows, output)


def _row(host: Any) -> dict[str, str]:
    whole, rest = capacity(host), free(host)
    gres = ",".join(f"{':'.join(filter(None, kind))} {rest.gres.get(kind, 0)}/{n}" for kind, n in whole.gres.items())
    reason = f"{host.reason} [{host.reason_set_by_user}]" if host.reason else ""
    return {
        "NODE": host.name,
        "STATE": str(host.state).lower(),
        "CPUS": f"{rest.cpus}/{whole.cpus}",
        "MEMORY": f"{megabytes(rest.memory)}/{megabytes(whole.memory)}",
        "GRES": gres,
        "PARTITIONS": ",".join(host.partitions),
        "REASON": reason,
        "FEATURES": ",".join(host.features),
        "VERSION": host.version,
    }


app = cluster_app(nodes)
