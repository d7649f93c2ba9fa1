# SPDX-License-Identifier: Apache-2.0
"""`slinky status`: a Slurm cluster in ten lines."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from slinky.cli.cluster.command import ClusterOptions, cluster_app
from slinky.cli.cluster.output import Output, OutputFormat, format_document
from slinky.cli.cluster.view import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view
from slinky.insight.plain_text import plain

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader
    from slinky.insight.queue_snapshot import QueueSnapshot


def status(
    options: ClusterOptions,
    output: Output = OutputFormat.TEXT,
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """Summarize a Slurm cluster: slurmctld, jobs by state and reason, nodes by state, devices, who drained what."""
    view = ClusterView(_read, partial(render_status, output=output))
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(cluster: "ConnectedCluster", reader: "SnapshotReader") -> "tuple[dict[str, str], QueueSnapshot]":
    snapshot = await reader.snapshot(accounting=False)
    server = cluster.client.session.server
    return {"cluster": server.cluster, "slurm": server.release, "where": cluster.where}, snapshot


def render_status(data: "tuple[dict[str, str], QueueSnapshot]", output: OutputFormat) -> str:
    """What a server says about itself, and a summary of its cluster."""
    server, snapshot = data
    facts = {**server, **_summary(snapshot)}
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        return format_document(facts, output)
    if output is OutputFormat.NAME:
        return plain(str(facts["cluster"]), 80)
    lines = []
    for name, value in facts.items():
        text = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)
        lines.append(f"{name + ':':<18}{plain(text, 400) or 'none'}")
    return "\n".join(lines)


def _summary(snapshot: Any) -> dict[str, Any]:
    from slinky.insight.job_requirements import capacity, free, pending_tasks

    jobs, reasons, hosts, drains = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    total, idle = Counter[str](), Counter[str]()
    for job in snapshot.jobs:
        if job.state.ended:
            continue
        count = pending_tasks(job) if job.state.pending else 1
        jobs[job.state.base.lower()] += count
        if job.state.pending:
            reasons[job.state_reason or "None"] += count
    for host in snapshot.hosts:
        word = "drained" if host.state.draining else "down" if host.state.down else host.state.base.lower()
        hosts[word] += 1
        if host.state.draining:
            drains[host.reason_set_by_user or "unknown"] += 1
        for (kind, _), count in capacity(host).gres.items():
            total[kind] += count
        for (kind, _), count in free(host).gres.items():
            idle[kind] += count
    diag = snapshot.diag
    age = int(snapshot.now - diag.bf_when_last_cycle.whole) if diag and diag.bf_when_last_cycle.whole else None
    return {
        "jobs": dict(jobs.most_common()),
        "pending because": dict(sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))[:8]),
        "nodes": dict(hosts.most_common()),
        "drained by": dict(drains.most_common(8)),
        "devices in use": {kind: f"{count - idle[kind]}/{count}" for kind, count in sorted(total.items())},
        "backfill cycle": f"{age} s ago" if age is not None else "never",
        "not known": "; ".join(snapshot.unknown),
    }


app = cluster_app(status)
