# SPDX-License-Identifier: Apache-2.0
"""Explains a pod without a Slurm job, or a gang of pods: what the bridge waits for, member by member. Pure.

The bridge writes why a pod waits into the pod's condition `SlurmScheduled`: the gang member that is missing, the
annotation that it refuses, the volume that is not ready. An explanation collects these for all pods of a gang.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, listed, plain

#: Characters of a message of the bridge or of Kubernetes that an explanation contains at most.
MESSAGE_LIMIT = 600
#: Different causes that an explanation names.
CAUSES_MAX = 5


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as an explanation reads it. `reason` and `message` are those of the bridge's condition.

    `fault` says why a container of the pod, or the pod itself, cannot start on its node.
    """

    namespace: str
    name: str
    job_id: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    scheduler: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class GangFacts:
    """The pods of a gang, or one pod; `kind` is `pod` or `gang`."""

    kind: str
    namespace: str
    name: str
    pods: tuple[PodFacts, ...]


def explain_pods(gang: GangFacts) -> QueueExplanation:
    """What the pods wait for, each cause once with its pods."""
    waiting = [pod for pod in gang.pods if not pod.job_id and not pod.node]
    jobs = sorted({pod.job_id for pod in gang.pods if pod.job_id}, key=lambda job: (len(job), job))
    return QueueExplanation(
        subject=f"{gang.kind.capitalize()} {plain(gang.namespace, 80)}/{plain(gang.name, 80)}",
        state=_state(gang, waiting, jobs),
        reason=next((plain(pod.reason, 80) for pod in waiting if pod.reason), ""),
        findings=(*_waiting_findings(waiting, gang), *_fault_findings(gang.pods)),
        notes=tuple(_notes(gang, jobs)),
    )


def _state(gang: GangFacts, waiting: Sequence[PodFacts], jobs: Sequence[str]) -> str:
    if not gang.pods:
        return "empty: it has no pods"
    if waiting:
        return "waiting for a Slurm job"
    return f"in Slurm as job {listed(jobs)}" if jobs else "outside of Slurm"


def _waiting_findings(pods: Sequence[PodFacts], gang: GangFacts) -> Iterator[Finding]:
    causes: dict[tuple[str, str], list[PodFacts]] = {}
    for pod in pods:
        causes.setdefault((pod.reason, pod.message), []).append(pod)
    for (reason, message), members in sorted(causes.items(), key=lambda cause: -len(cause[1]))[:CAUSES_MAX]:
        if message:
            of = "" if len(gang.pods) == 1 else f"{_pods_text(members).capitalize()}: "
            yield Finding(
                Topic.OTHER,
                f"{of}{plain(message, MESSAGE_LIMIT).rstrip('.')} ({plain(reason, 80)}).",
                blockers=tuple(f"pod {plain(pod.name, 80)}" for pod in members[:20]),
            )
        else:
            yield _unknown_to_bridge(members)


def _unknown_to_bridge(members: Sequence[PodFacts]) -> Finding:
    names = sorted({pod.scheduler for pod in members})
    is_one = len(members) == 1
    return Finding(
        Topic.OTHER,
        f"The bridge has not written a condition on {_pods_text(members)}: it has not seen "
        f"{'the pod' if is_one else 'them'}, or the scheduler name {listed(names)} is not its own.",
        "",
        "Compare `schedulerName` of the pod with that of the bridge, and check that the bridge runs.",
        Remedy.ADMINISTRATOR,
        tuple(f"pod {plain(pod.name, 80)}" for pod in members[:20]),
    )


def _fault_findings(pods: Sequence[PodFacts]) -> Iterator[Finding]:
    for pod in [pod for pod in pods if pod.fault][:CAUSES_MAX]:
        where = f" on node {plain(pod.node, 80)}" if pod.node else ""
        yield Finding(
            Topic.NODES,
            f"Pod {plain(pod.name, 80)} cannot start{where}: {plain(pod.fault, MESSAGE_LIMIT).rstrip('.')}.",
            "",
            f"Look at it with `kubectl describe pod -n {plain(pod.namespace, 80)} {plain(pod.name, 80)}`.",
            Remedy.USER,
            (f"pod {plain(pod.name, 80)}",),
        )


def _notes(gang: GangFacts, jobs: Sequence[str]) -> Iterator[str]:
    if gang.kind == "pod":
        return
    placed = sum(1 for pod in gang.pods if pod.node)
    submitted = f"in Slurm as job {listed(jobs)}" if jobs else "not in Slurm yet"
    yield f"It has {counted(len(gang.pods), 'pod')}, of which {placed} have a node; it is {submitted}."


def _pods_text(pods: Sequence[PodFacts]) -> str:
    return f"{'pod' if len(pods) == 1 else 'pods'} {listed(pod.name for pod in pods)}"
