# SPDX-License-Identifier: Apache-2.0
"""`slinky drain` and `undrain`: stop and resume the start of jobs on nodes, after naming who drained them and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from slinky.api.names.metadata import REASON_PREFIX as OPERATOR_PREFIX
from slinky.bridge.names import DRAIN_PREFIX as BRIDGE_PREFIX
from slinky.cli.access.connection import open_cluster
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_apps, not_found, run_command
from slinky.cli.cluster.confirmation import DryRun, Yes, confirm, explained_denial
from slinky.insight.queue_snapshot import host_names
from slinky.slurm import Host, NodeUpdate

if TYPE_CHECKING:
    from slinky.slurm import SlurmClient

Nodes = Annotated[list[str], typer.Argument(help="Nodes, as hostlists: k001 or k[001-004].")]
#: The right that changes nodes.
OPERATOR = "an operator of Slurm (`sacctmgr modify user NAME set adminlevel=Operator`)"
#: Beginnings of the reasons with which the operator and the bridge drain; they drain such a node again.
MANAGED_PREFIXES = (BRIDGE_PREFIX, OPERATOR_PREFIX)


def drain(
    options: ClusterOptions,
    nodes: Nodes,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Reason of the drain, which other users see.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Drain nodes: running jobs end normally, new ones do not start."""
    run_command(_drain(options, nodes, reason, yes=yes, dry_run=dry_run))


def undrain(options: ClusterOptions, nodes: Nodes, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Let jobs start on drained nodes again."""
    run_command(_undrain(options, nodes, yes=yes, dry_run=dry_run))


async def _drain(options: ClusterOptions, nodes: list[str], reason: str, *, yes: bool, dry_run: bool) -> None:
    if not reason.strip():
        raise CommandError("a drain needs a reason", ExitStatus.USAGE)
    async with open_cluster(options) as cluster:
        hosts = await find_hosts(cluster.client, nodes)
        actions = [describe_new_drain(host, reason) for host in hosts]
        if confirm(actions, yes=yes, dry_run=dry_run):
            change = NodeUpdate(state=["DRAIN"], reason=reason)
            with explained_denial(cluster.client, "drain nodes", OPERATOR):
                await cluster.client.update_nodes([host.name for host in hosts], change)


async def _undrain(options: ClusterOptions, nodes: list[str], *, yes: bool, dry_run: bool) -> None:
    async with open_cluster(options) as cluster:
        hosts = [host for host in await find_hosts(cluster.client, nodes) if host.state.draining]
        if not hosts:
            raise CommandError("none of these nodes is drained")
        if confirm([describe_drain(host) for host in hosts], yes=yes, dry_run=dry_run):
            with explained_denial(cluster.client, "undrain nodes", OPERATOR):
                await cluster.client.update_nodes([host.name for host in hosts], NodeUpdate(state=["RESUME"]))


async def find_hosts(client: "SlurmClient", texts: list[str]) -> list[Host]:
    """The nodes of some hostlists. Raises `CommandError` if one does not exist."""
    listing = await client.nodes()
    known = {host.name: host for host in (listing.items if listing else ())}
    names = list(dict.fromkeys(name for text in texts for name in host_names(text.removeprefix("node/"))))
    for name in names:
        if name not in known:
            raise not_found("node", name, list(known))
    return [known[name] for name in names]


def describe_new_drain(host: Host, reason: str) -> str:
    """What is done with a node, and whose reason is replaced."""
    text = f"drain {host.name} ({str(host.state).lower()}): {reason}"
    if not host.state.draining:
        return text
    return f"{text}; this replaces the reason of {host.reason_set_by_user or 'an unknown user'}: {host.reason}"


def describe_drain(host: Host) -> str:
    """Who drained a node and why, and whether it will be drained again."""
    text = f"undrain {host.name}, which {host.reason_set_by_user or 'an unknown user'} drained: {host.reason}"
    if host.reason.startswith(MANAGED_PREFIXES):
        text += " (set by a controller, which drains the node again while the cause lasts)"
    return text


app = cluster_apps(drain, undrain)
