# SPDX-License-Identifier: Apache-2.0
"""`slinky forecast`: when pending jobs are expected to start, as ranges with their source."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slinky.cli.cluster.command import ClusterOptions, cluster_app
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_rows
from slinky.cli.cluster.view import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader
    from slinky.insight.queue_snapshot import QueueSnapshot

COLUMNS = ("JOBID", "NAME", "USER", "PARTITION", "EXPECTED START", "NODES")


def forecast(
    options: ClusterOptions,
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; by default every pending job.")] = None,
    output: Output = OutputFormat.TEXT,
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """Say when pending jobs are expected to start.

    A forecast is a range of time. It comes from slurmctld's own plan if the plan is recent, otherwise from a simulation
    of the backfill scheduler. The late end assumes that every job uses its whole time limit, the early end that jobs
    end as earlier jobs did. Later submissions, limits of accounts and preemption are not considered.
    """
    view = ClusterView(_read, partial(render_forecast, jobs=jobs or [], output=output))
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(_: "ConnectedCluster", reader: "SnapshotReader") -> "QueueSnapshot":
    return await reader.snapshot(accounting=False, history=True)


def render_forecast(snapshot: "QueueSnapshot", jobs: list[str], output: OutputFormat) -> str:
    """The expected starts of these jobs, or of every pending job. Raises `CommandError` for an unknown one."""
    from slinky.cli.access.targets import find_job
    from slinky.insight.forecast import forecast as compute_forecast

    wanted = [find_job(name.removeprefix("job/"), snapshot).job_id for name in jobs]
    ranges = compute_forecast(snapshot)
    shown = [snapshot.jobs_by_id[number] for number in wanted or ranges]
    documents: list[dict[str, Any]] = []
    rows: list[dict[str, str]] = []
    for job in shown:
        start = ranges.get(job.job_id)
        text = start.text(snapshot.now) if start else f"not pending ({str(job.state).lower()})"
        hosts = ",".join(start.hosts) if start else job.nodes
        row = {"JOBID": str(job.job_id), "NAME": job.name, "USER": job.user_name, "PARTITION": job.partition}
        rows.append(row | {"EXPECTED START": text, "NODES": hosts})
        documents.append(
            {
                "job": job.job_id,
                "name": job.name,
                "user": job.user_name,
                "partition": job.partition,
                "earliest": start.earliest if start else None,
                "latest": start.latest if start else None,
                "lastTask": start.last_task if start else None,
                "source": start.source.value if start else "",
                "why": start.why if start else "",
            }
        )
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        return format_document(documents, output)
    if output is OutputFormat.NAME:
        return "\n".join(f"job/{job.job_id}" for job in shown)
    return format_rows(COLUMNS if output is OutputFormat.WIDE else COLUMNS[:-1], rows, OutputFormat.WIDE)


app = cluster_app(forecast)
