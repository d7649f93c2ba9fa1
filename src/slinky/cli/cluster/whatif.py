# SPDX-License-Identifier: Apache-2.0
"""`slinky whatif`: what would start earlier or later after a change."""

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_app, not_found, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document, print_rows
from slinky.insight.plain_text import duration

if TYPE_CHECKING:
    from slinky.insight.forecast.what_if import QueueChange
    from slinky.insight.queue_snapshot import QueueSnapshot

COLUMNS = ("JOBID", "NAME", "USER", "BEFORE", "AFTER", "CHANGE")
_TIME = re.compile(r"(\d{1,7})(m|min|h|d)?\Z")
_UNITS = {None: 60, "m": 60, "min": 60, "h": 3600, "d": 86400}


def whatif(
    options: ClusterOptions,
    job: Annotated[int | None, typer.Argument(help="Job that --qos, --time and --to-partition change.")] = None,
    add: Annotated[list[str] | None, typer.Option(help="Further nodes, as PARTITION=COUNT or NODE=COUNT.")] = None,
    drain: Annotated[list[str] | None, typer.Option(help="Nodes that would be drained, as a hostlist.")] = None,
    qos: Annotated[str, typer.Option(help="QOS of the job.")] = "",
    time: Annotated[str, typer.Option(help="Time limit of the job: 90m, 2h, 1d; a plain number is in minutes.")] = "",
    to_partition: Annotated[str, typer.Option(help="Partition of the job.")] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Say what would start earlier or later after a change. Nothing is changed."""
    run_command(_whatif(options, job, add or [], drain or [], (qos, time, to_partition), output))


async def _whatif(
    options: ClusterOptions,
    job: int | None,
    add: list[str],
    drain: list[str],
    changes: tuple[str, str, str],
    output: OutputFormat,
) -> None:
    from slinky.cli.access.reader import read_snapshot
    from slinky.cli.access.targets import find_job
    from slinky.insight.forecast.what_if import QueueChange, WhatIfError, what_if
    from slinky.insight.queue_snapshot import host_names

    qos, limit, partition = changes
    if any(changes) and job is None:
        raise CommandError("--qos, --time and --to-partition change a job: name it", ExitStatus.USAGE)
    if not any(changes) and not add and not drain:
        raise CommandError(
            "name a change: --add, --drain, or a job with --qos, --time or --to-partition", ExitStatus.USAGE
        )
    change = QueueChange(
        added=tuple(parse_addition(text) for text in add),
        drained=tuple(name for text in drain for name in host_names(text)),
        job_id=job,
        qos=qos,
        partition=partition,
        seconds=parse_time(limit) if limit else None,
    )
    async with open_cluster(options) as cluster:
        snapshot = await read_snapshot(cluster.client)
    if job is not None:
        find_job(str(job), snapshot)
    check_names(change, snapshot)
    try:
        result = what_if(snapshot, change)
    except WhatIfError as error:
        raise CommandError(str(error), ExitStatus.NOT_FOUND) from error
    shifts = [*result.earlier, *result.later]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        entries = [{"job": s.job_id, "before": s.before, "after": s.after, "seconds": s.seconds} for s in shifts]
        print_document({"shifts": entries, "unchanged": result.unchanged, "notes": list(result.notes)}, output)
    elif output is OutputFormat.NAME:
        for shift in shifts:
            typer.echo(f"job/{shift.job_id}")
    else:
        for note in result.notes:
            typer.echo(note)
        if shifts:
            print_rows(COLUMNS, [_row(shift, snapshot.now) for shift in shifts], output)
        typer.echo(f"{len(result.earlier)} earlier, {len(result.later)} later, {result.unchanged} unchanged")


def check_names(change: "QueueChange", snapshot: "QueueSnapshot") -> None:
    """Raise `CommandError` with near names if a node does not exist, or nothing is called as an addition."""
    for name in change.drained:
        if name not in snapshot.hosts_by_name:
            raise not_found("node", name, list(snapshot.hosts_by_name))
    features = {feature for host in snapshot.hosts for feature in host.features}
    known = {*snapshot.hosts_by_name, *snapshot.partitions_by_name, *features}
    for name, _ in change.added:
        if name not in known and get_close_matches(name, known):
            raise not_found("node, feature or partition", name, sorted(known))


def parse_addition(text: str) -> tuple[str, int]:
    """`gpu=4` as a name and a count."""
    name, _, count = text.rpartition("=")
    if not name or not count.isascii() or not count.isdigit() or len(count) > 6:
        raise CommandError(f"{text!r} is not PARTITION=COUNT", ExitStatus.USAGE)
    return name, int(count)


def parse_time(text: str) -> int:
    """A time limit in seconds."""
    match = _TIME.match(text)
    if match is None:
        raise CommandError(f"{text!r} is not a time such as 90m, 2h or 1d", ExitStatus.USAGE)
    return int(match[1]) * _UNITS[match[2]]


def _row(shift: Any, now: float) -> dict[str, str]:
    def when(begin: int | None) -> str:
        return "never" if begin is None else "now" if begin - now < 1 else f"in {duration(begin - now)}"

    change = f"{duration(abs(shift.seconds))} {'earlier' if shift.seconds < 0 else 'later'}" if shift.seconds else ""
    row = {"JOBID": str(shift.job_id), "NAME": shift.name, "USER": shift.user}
    return row | {"BEFORE": when(shift.before), "AFTER": when(shift.after), "CHANGE": change}


app = cluster_app(whatif)
