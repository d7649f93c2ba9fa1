# SPDX-License-Identifier: Apache-2.0
"""`slinky explain`: why a job waits, or what a node does, as one paragraph."""

from functools import partial
from typing import Annotated, Any

import typer

from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.access.reader import SnapshotReader
from slinky.cli.access.targets import find_target
from slinky.cli.cluster.command import ClusterOptions, cluster_app
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_paragraph
from slinky.cli.cluster.watch import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view
from slinky.insight.explain import explain_host, explain_job
from slinky.insight.forecast import forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host

Targets = Annotated[
    list[str], typer.Argument(help="Job (123, 123_4, job/123), node (k001, node/k001) or pod (pod/NAME).")
]


def explain(
    options: ClusterOptions,
    targets: Targets,
    output: Output = OutputFormat.TEXT,
    pod_namespace: Annotated[str, typer.Option(help="Namespace of pods; by default that of the context.")] = "",
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """Say why a job waits, or what a node does, and what to do next.

    Slurm reports one reason, even if several apply. This command checks all of them. It names what blocks the job, the
    rank of the job in the queue, its expected start and the next step.
    """
    view = ClusterView(
        partial(_read, targets=targets, pod_namespace=pod_namespace), partial(render_explanations, output=output)
    )
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(
    cluster: ConnectedCluster, reader: SnapshotReader, *, targets: list[str], pod_namespace: str
) -> tuple[QueueSnapshot, list[str]]:
    snapshot = await reader.snapshot()
    names = [
        await cluster.job_of_pod(target.removeprefix("pod/"), pod_namespace) if target.startswith("pod/") else target
        for target in targets
    ]
    return snapshot, names


def render_explanations(data: tuple[QueueSnapshot, list[str]], output: OutputFormat = OutputFormat.TEXT) -> str:
    """What the jobs and nodes of these names wait for. Raises `CommandError` for an unknown one."""
    snapshot, names = data
    objects = [find_target(name, snapshot) for name in names]
    ranges = forecast(snapshot) if any(not isinstance(item, Host) and item.state.pending for item in objects) else {}
    documents: list[dict[str, Any]] = []
    texts: list[str] = []
    for item in objects:
        explanation = explain_host(item, snapshot) if isinstance(item, Host) else explain_job(item, snapshot)
        text = explanation.paragraph()
        start = None if isinstance(item, Host) else ranges.get(item.job_id)
        if start is not None and not start.why:
            text += f" Expected start: {start.text(snapshot.now)}."
        if output in (OutputFormat.TEXT, OutputFormat.WIDE):
            texts.append(format_paragraph(text))
        elif output is OutputFormat.NAME:
            texts.append(" ".join(blocker for finding in explanation.findings for blocker in finding.blockers))
        else:
            documents.append(_document(explanation, text, start))
    if documents:
        return format_document(documents[0] if len(documents) == 1 else documents, output)
    return "\n".join(texts)


def _document(explanation: Any, text: str, start: Any) -> dict[str, Any]:
    rank = explanation.rank
    return {
        "subject": explanation.subject,
        "state": explanation.state,
        "reason": explanation.reason,
        "text": text,
        "findings": [
            {
                "topic": finding.topic.value,
                "sentence": finding.sentence,
                "cure": finding.cure,
                "step": finding.step,
                "remedy": finding.remedy.value,
                "blockers": list(finding.blockers),
            }
            for finding in explanation.findings
        ],
        "rank": rank and {
            "position": rank.position,
            "eligible": rank.eligible,
            "priority": rank.priority,
            "parts": dict(rank.parts),
        },
        "expectedStart": start and {
            "earliest": start.earliest,
            "latest": start.latest,
            "source": start.source.value,
            "why": start.why,
        },
        "unknown": list(explanation.unknown),
    }  # fmt: skip


app = cluster_app(explain)
