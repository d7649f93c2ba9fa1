# SPDX-License-Identifier: Apache-2.0
"""`slinky queue`: jobs as squeue lists them, with the expected start of those that wait."""

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_app, not_found
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_rows
from slinky.cli.cluster.view import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view
from slinky.insight.plain_text import duration, plain
from slinky.slurm.model.states import JOB_BASES, JOB_FLAGS

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader
    from slinky.insight.queue_snapshot import QueueSnapshot

COLUMNS = ("JOBID", "PARTITION", "NAME", "USER", "STATE", "TIME", "NODES", "NODELIST(REASON)", "EXPECTED START")
WIDE_COLUMNS = (*COLUMNS[:4], "ACCOUNT", "QOS", "PRIORITY", *COLUMNS[4:])
#: The short names of states that squeue accepts.
STATES = {"PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING", "S": "SUSPENDED", "CF": "CONFIGURING"}


def queue(
    options: ClusterOptions,
    me: Annotated[bool, typer.Option("--me", help="Only jobs of the token's user.")] = False,
    user: Annotated[str, typer.Option("--user", "-u", help="Only jobs of these users, separated by commas.")] = "",
    partition: Annotated[
        str, typer.Option("--partition", "-p", help="Only jobs of these partitions, separated by commas.")
    ] = "",
    states: Annotated[
        str, typer.Option("--states", "-t", help="Only jobs in these states, such as PD,R; `all` shows ended jobs too.")
    ] = "",
    output: Output = OutputFormat.TEXT,
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """List jobs in the order of the queue, with the expected start of those that wait."""
    filters = (me, user, partition, states)
    parse_states(states)
    view = ClusterView(partial(_read, me=me), partial(render_queue, filters=filters, output=output))
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(cluster: "ConnectedCluster", reader: "SnapshotReader", *, me: bool) -> "tuple[QueueSnapshot, str]":
    from slinky.slurm.tokens import read_claims

    snapshot = await reader.snapshot(accounting=False)
    return snapshot, read_claims(cluster.client.session.tokens.token()).user if me else ""


def render_queue(
    data: "tuple[QueueSnapshot, str]", filters: tuple[bool, str, str, str], output: OutputFormat = OutputFormat.TEXT
) -> str:
    """The jobs of a snapshot. `data` also names the token's user, `filters` are the flags of the command."""
    from slinky.insight.forecast import forecast

    me, user, partition, states = filters
    snapshot, own = data
    users = {own} if me else set(filter(None, user.split(",")))
    partitions = set(filter(None, partition.split(",")))
    wanted = parse_states(states)
    known = {*snapshot.partitions_by_name, *(name for job in snapshot.jobs for name in job.partition.split(","))}
    for name in sorted(partitions - known) if snapshot.partitions else ():
        raise not_found("partition", name, sorted(known))
    ranges = forecast(snapshot)
    order = {job.job_id: index for index, job in enumerate(snapshot.pending)}
    jobs = [
        job
        for job in snapshot.jobs
        if (not users or job.user_name in users)
        and (not partitions or partitions & set(job.partition.split(",")))
        and (wanted is None or (set(job.state.words) & wanted if wanted else not job.state.ended))
    ]
    jobs.sort(key=lambda job: (job.job_id not in order, order.get(job.job_id, 0), job.job_id))
    if output is OutputFormat.NAME:
        return "\n".join(f"job/{job.job_id}" for job in jobs)
    rows = [_row(job, ranges.get(job.job_id), snapshot.now) for job in jobs]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        return format_document(rows, output)
    return format_rows(WIDE_COLUMNS if output is OutputFormat.WIDE else COLUMNS, rows, output)


def parse_states(text: str) -> set[str] | None:
    """The states of `-t`: an empty set for all that have not ended, None for every job."""
    if text.lower() == "all":
        return None
    states = {STATES.get(word.upper(), word.upper()) for word in text.split(",") if word}
    for word in sorted(states - JOB_BASES - JOB_FLAGS):
        near = get_close_matches(word, sorted(JOB_BASES | JOB_FLAGS), n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ", such as PENDING or R"
        raise CommandError(f"{plain(word, 80)!r} is not a state of a job{hint}", ExitStatus.USAGE)
    return states


def _row(job: Any, start: Any, now: float) -> dict[str, str]:
    from slinky.insight.job_requirements import pending_tasks, requirements

    is_pending = job.state.pending
    array, task = job.array_job_id.whole, job.array_task_id
    number = f"{array}_{task.whole}" if array and task.set else str(job.job_id)
    if is_pending and pending_tasks(job) > 1:
        number = f"{job.job_id}_[{job.array_task_string}]"
    running = duration(now - job.start_time.whole) if job.state.holds_nodes and job.start_time.whole else ""
    return {
        "JOBID": number,
        "PARTITION": job.partition,
        "NAME": job.name,
        "USER": job.user_name,
        "ACCOUNT": job.account,
        "QOS": job.qos,
        "PRIORITY": str(job.priority.whole),
        "STATE": str(job.state),
        "TIME": running,
        "NODES": str(requirements(job).nodes),
        "NODELIST(REASON)": f"({job.state_reason})" if is_pending else job.nodes,
        "EXPECTED START": start.text(now) if start is not None and not start.why else "",
    }


app = cluster_app(queue)
