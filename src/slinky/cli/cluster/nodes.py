# SPDX-License-Identifier: Apache-2.0
"""`slinky nodes`: nodes with what is free on them, and who drained them and why."""

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_app, not_found
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_rows
from slinky.cli.cluster.view import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view
from slinky.insight.plain_text import megabytes, plain
from slinky.slurm.model.states import NODE_BASES, NODE_FLAGS

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader
    from slinky.slurm import Host

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
    future: Annotated[
        bool, typer.Option("--future", "-F", help="Also workers that NodeSets with autoscaling may have.")
    ] = False,
    output: Output = OutputFormat.TEXT,
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """List nodes: free and total CPUs, memory and devices, and who drained them and why."""
    read = partial(_read, future=future or "FUTURE" in parse_states(states))
    view = ClusterView(read, partial(render_nodes, names=names or [], filters=(partition, states), output=output))
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(_: "ConnectedCluster", reader: "SnapshotReader", *, future: bool) -> "tuple[Host, ...]":
    return await reader.hosts(future=future)


def render_nodes(
    known: "tuple[Host, ...]", names: list[str], filters: tuple[str, str], output: OutputFormat = OutputFormat.TEXT
) -> str:
    """The nodes with these names, partitions and states. Raises `CommandError` for an unknown name."""
    from slinky.insight.queue_snapshot import host_names
    from slinky.slurm.hostlist import natural_sort_key

    hosts = {host.name: host for host in known}
    wanted = {name for text in names for name in host_names(text)}
    for name in sorted(wanted):
        if name not in hosts:
            raise not_found("node", name, list(hosts))
    partitions, words = set(filter(None, filters[0].split(","))), parse_states(filters[1])
    used = {name for host in known for name in host.partitions}
    for name in sorted(partitions - used):
        raise not_found("node in the partition", name, sorted(used))
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


def parse_states(text: str) -> set[str]:
    """The states of `-t`, in any case. Raises `CommandError` for a word that is no state of a node."""
    words = {word.upper() for word in text.split(",") if word}
    for word in sorted(words - NODE_BASES - NODE_FLAGS):
        near = get_close_matches(word, sorted(NODE_BASES | NODE_FLAGS), n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ", such as IDLE or DRAIN"
        raise CommandError(f"{plain(word, 80)!r} is not a state of a node{hint}", ExitStatus.USAGE)
    return words


def _row(host: Any) -> dict[str, str]:
    from slinky.insight.job_requirements import capacity, free

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
