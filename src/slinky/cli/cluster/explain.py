# SPDX-License-Identifier: Apache-2.0
"""`slinky explain`: why a job, pod or gang waits, or what a node or NodeSet does, as one paragraph."""

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeGuard

import typer

from slinky.cli.cluster.command import ClusterOptions, cluster_app
from slinky.cli.cluster.output import Output, OutputFormat, format_document, format_paragraph
from slinky.cli.cluster.view import INTERVAL_SECONDS, ClusterView, Interval, Watch, run_view

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader
    from slinky.insight.explain import GangFacts, NodeSetFacts, QueueExplanation
    from slinky.insight.forecast import StartRange
    from slinky.insight.queue_snapshot import QueueSnapshot
    from slinky.slurm import Host, Job

#: Kinds of arguments that only Kubernetes knows.
KUBERNETES_KINDS = ("pod", "gang", "nodeset")

Targets = Annotated[
    list[str],
    typer.Argument(
        help="Job (123, 123_4, job/123), node (k001, node/k001), pod (pod/NAME), gang (gang/NAME: a PodGroup, JobSet, "
        "LeaderWorkerSet or batch job) or NodeSet (nodeset/NAME)."
    ),
]
#: What an argument stands for: a name to find in the snapshot, or what Kubernetes knows.
Target: TypeAlias = "str | GangFacts | NodeSetFacts"


def explain(
    options: ClusterOptions,
    targets: Targets,
    output: Output = OutputFormat.TEXT,
    pod_namespace: Annotated[
        str, typer.Option(help="Namespace of pods, gangs and NodeSets; by default that of the context.")
    ] = "",
    watch: Watch = False,
    interval: Interval = INTERVAL_SECONDS,
) -> None:
    """Say why a job, pod or gang waits, or what a node or NodeSet does, and what to do next.

    Slurm reports one reason, even if several apply. This command checks all of them. It names what blocks the job, the
    rank of the job in the queue, its expected start and the next step.
    """
    view = ClusterView(
        partial(_read, options=options, targets=targets, pod_namespace=pod_namespace),
        partial(render_explanations, output=output),
        partial(stream_explanations, output=output),
    )
    run_view(options, view, output, watch=watch, interval=interval)


async def _read(
    cluster: "ConnectedCluster",
    reader: "SnapshotReader",
    *,
    options: ClusterOptions,
    targets: list[str],
    pod_namespace: str,
) -> "tuple[QueueSnapshot, list[Target]]":
    snapshot = await reader.snapshot()
    found: list[Target] = []
    for target in targets:
        kind, _, name = target.partition("/")
        if name and kind in KUBERNETES_KINDS:
            found += await _find_in_kubernetes(cluster, options, kind, name, pod_namespace)
        else:
            found.append(target)
    return snapshot, found


async def _find_in_kubernetes(
    cluster: "ConnectedCluster", options: ClusterOptions, kind: str, name: str, namespace: str
) -> list[Target]:
    """What Kubernetes knows of an object, then the Slurm jobs of its pods. Raises `CommandError` or `KubeError`."""
    # A plain Slurm needs no Kubernetes client, whose import costs more than everything else.
    from slinky.cli.access import workload_facts

    async with cluster.open_kube(options) as kube:
        if kind == "nodeset":
            return [await workload_facts.read_node_set(kube, name, namespace or cluster.namespace or kube.namespace)]
        read = workload_facts.read_pod if kind == "pod" else workload_facts.read_gang
        gang = await read(kube, name, namespace or kube.namespace)
    jobs = list(dict.fromkeys(pod.job_id for pod in gang.pods if pod.job_id))
    # The job of a single pod says everything, unless its containers cannot start.
    is_told_by_job = bool(jobs) and gang.kind == "pod" and not any(pod.fault for pod in gang.pods)
    return [*([] if is_told_by_job else [gang]), *jobs]


def render_explanations(data: "tuple[QueueSnapshot, list[Target]]", output: OutputFormat = OutputFormat.TEXT) -> str:
    """What these objects wait for. Raises `CommandError` for an unknown one."""
    return "".join(stream_explanations(data, output))


def stream_explanations(data: "tuple[QueueSnapshot, list[Target]]", output: OutputFormat) -> Iterator[str]:
    """The same text in parts: an explanation is there before the queue is simulated for its last sentence."""
    from slinky.cli.access.targets import find_target
    from slinky.slurm import Job

    snapshot, targets = data
    objects = [find_target(target, snapshot) if isinstance(target, str) else target for target in targets]
    jobs = [item for item in objects if isinstance(item, Job)]
    ranges = lru_cache(lambda: expected_starts(jobs, snapshot))
    documents: list[dict[str, Any]] = []
    for index, item in enumerate(objects):
        explanation = _explain(item, snapshot)
        separator = "\n" if index else ""
        if output is OutputFormat.NAME:
            yield separator + " ".join(blocker for finding in explanation.findings for blocker in finding.blockers)
            continue
        text = explanation.paragraph()
        if output in (OutputFormat.TEXT, OutputFormat.WIDE):
            yield separator + format_paragraph(text)
        start = ranges().get(item.job_id) if isinstance(item, Job) else None
        sentence = f" Expected start: {start.text(snapshot.now)}." if _is_of_use(start) else ""
        if output in (OutputFormat.TEXT, OutputFormat.WIDE):
            yield format_paragraph(text + sentence).removeprefix(format_paragraph(text))
        else:
            documents.append(_document(explanation, text + sentence, start))
    if documents:
        yield format_document(documents[0] if len(documents) == 1 else documents, output)


def _is_of_use(start: "StartRange | None") -> "TypeGuard[StartRange]":
    """Whether a forecast says more than the explanation before it."""
    return start is not None and (not start.why or start.doubted)


def expected_starts(jobs: "list[Job]", snapshot: "QueueSnapshot") -> "dict[int, StartRange]":
    """The expected starts of those jobs that are pending; jobs behind them are not simulated."""
    from slinky.insight.forecast import forecast

    pending = [job.job_id for job in jobs if job.state.pending]
    return forecast(snapshot, until=pending) if pending else {}


def _explain(item: "Job | Host | GangFacts | NodeSetFacts", snapshot: "QueueSnapshot") -> "QueueExplanation":
    from slinky.insight import explain as views
    from slinky.slurm import Host, Job

    match item:
        case Job():
            return views.explain_job(item, snapshot)
        case Host():
            return views.explain_host(item, snapshot)
        case views.GangFacts():
            return views.explain_pods(item)
        case views.NodeSetFacts():
            return views.explain_node_set(item, snapshot)


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
