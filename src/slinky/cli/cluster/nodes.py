# SPDX-License-Identifier: Apache-2.0
"""`slinky nodes`: nodes with what is free on them, and who drained them and why."""

from functools import partial
from typing import Annotated, Any

import typer

from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.access.reader import SnapshotReader
from slinky.cli.cluster.command import ClusterOptions, cluster_app, not_found
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_rows
from slinky.cli.cluster.watch import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view
from slinky.insight.job_requirements import capacity, free
from slinky.insight.plain_text import megabytes
from slinky.insight.queue_snapshot import host_names
from slinky.slurm import Host
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
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """List nodes: free and total CPUs, memory and devices, and who drained them and why."""
    view = ClusterView(_read, partial(render_nodes, names=names or [], filters=(partition, states), output=output))
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(_: ConnectedCluster, reader: SnapshotReader) -> tuple[Host, ...]:
    return await reader.hosts()


def render_nodes(
    known: tuple[Host, ...], names: list[str], filters: tuple[str, str], output: OutputFormat = OutputFormat.TEXT
) -> str:
    """The nodes with these names, partitions and states. Raises `CommandError` for an unknown name."""
    hosts = {host.name: host for host in known}
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
        return "\n".join(f"node/{host.name}" for host in shown)
    rows = [_row(host) for host in shown]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        return format_document(rows, output)
    return format_rows(WIDE_COLUMNS if output is OutputFormat.WIDE else COLUMNS, rows, output)


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
