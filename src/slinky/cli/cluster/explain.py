# SPDX-License-Identifier: Apache-2.0
"""`slinky explain`: why a job waits, or what a node does, as one paragraph."""

from typing import Annotated, Any

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.access.reader import read_snapshot
from slinky.cli.access.targets import find_target
from slinky.cli.cluster.command import ClusterOptions, cluster_app, run_command
from slinky.cli.cluster.output import Output, OutputFormat, print_document, print_paragraph
from slinky.insight.explain import explain_host, explain_job
from slinky.insight.forecast import forecast
from slinky.slurm import Host

Targets = Annotated[
    list[str], typer.Argument(help="Job (123, 123_4, job/123), node (k001, node/k001) or pod (pod/NAME).")
]


def explain(
    options: ClusterOptions,
    targets: Targets,
    output: Output = OutputFormat.TEXT,
    pod_namespace: Annotated[str, typer.Option(help="Namespace of pods; by default that of the context.")] = "",
) -> None:
    """Say why a job waits, or what a node does, and what to do next.

    Slurm reports one reason, even if several apply. This command checks all of them. It names what blocks the job, the
    rank of the job in the queue, its expected start and the next step.
    """
    run_command(_explain(options, targets, output, pod_namespace))


async def _explain(options: ClusterOptions, targets: list[str], output: OutputFormat, pod_namespace: str) -> None:
    async with open_cluster(options) as cluster:
        snapshot = await read_snapshot(cluster.client)
        names = [
            await cluster.job_of_pod(target.removeprefix("pod/"), pod_namespace)
            if target.startswith("pod/")
            else target
            for target in targets
        ]
    objects = [find_target(name, snapshot) for name in names]
    ranges = forecast(snapshot) if any(not isinstance(item, Host) and item.state.pending for item in objects) else {}
    documents: list[dict[str, Any]] = []
    for item in objects:
        explanation = explain_host(item, snapshot) if isinstance(item, Host) else explain_job(item, snapshot)
        text = explanation.paragraph()
        start = None if isinstance(item, Host) else ranges.get(item.job_id)
        if start is not None and not start.why:
            text += f" Expected start: {start.text(snapshot.now)}."
        if output in (OutputFormat.TEXT, OutputFormat.WIDE):
            print_paragraph(text)
        elif output is OutputFormat.NAME:
            typer.echo(" ".join(blocker for finding in explanation.findings for blocker in finding.blockers))
        else:
            documents.append(_document(explanation, text, start))
    if documents:
        print_document(documents[0] if len(documents) == 1 else documents, output)


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
