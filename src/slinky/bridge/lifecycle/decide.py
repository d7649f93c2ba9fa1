# SPDX-License-Identifier: Apache-2.0
"""What to do next for one unit: the life of a workload, as one pure function.

    new -> (gang complete) -> Submit -> Say why it waits -> Place -> ... -> End -> LetGo
                                  |         |                |
                              resubmit <- Detach         Evict (the job ended), Reclaim (it was lost)

Pods are sorted by the job that their label names, each job is followed, then those without one are taken in. What
Slurm does not tell for certain leads to no action at all: unknown is not gone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from slinky.bridge.lifecycle import outcome
from slinky.bridge.lifecycle.actions import (
    CancelJob,
    DetachPods,
    EvictPods,
    ExplainEnd,
    JobKnowledge,
    LabelPods,
    ObservedJob,
    PlacePods,
    Plan,
    RecoverJob,
    RemoveFinalizer,
    ReviseJob,
    SubmitJob,
    WithdrawJob,
    WriteCondition,
)
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status import conditions, reasons
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.kube.conditions import find_condition
from slinky.kube.timestamps import seconds_since
from slinky.slurm import JobRecord

#: How long no pod has come to a gang that is told that some are missing.
STILL = 2.0
#: How long words wait at most for those that want a node.
LATEST = 10.0


@dataclass(frozen=True)
class WorkloadSnapshot:
    """All that is known of a unit at one moment."""

    unit: Workload
    pods: Sequence[WorkloadPod]
    jobs: Mapping[str, ObservedJob]
    root: WorkloadRoot | None
    now: datetime
    problem: ConditionText | None = None  # why its pods cannot be translated, or why there is no root
    patience: float = 120.0
    reachable: Callable[[str], bool | None] = lambda _: True  # None: no such node
    strays: Sequence[str] = ()  # jobs of this unit that no pod is labelled with
    place: Callable[[JobRecord], str] = lambda _: ""  # where a waiting job stands, in a sentence
    adopted: Mapping[str, str] = field(default_factory=dict)  # jobs of pods that do not carry their name, by pod uid
    busy: bool = False  # others are being given their nodes right now
    elsewhere: Callable[[str], bool] = lambda _: False  # whether pods that are not of this unit live by a job


def decide(view: WorkloadSnapshot) -> Plan:
    """The next steps for a unit; an empty plan when there is nothing to do."""
    plan = Plan()
    by_job: dict[str, list[WorkloadPod]] = {}
    for pod in view.pods:
        by_job.setdefault(pod_state.job_id(pod) or view.adopted.get(pod.metadata.uid, ""), []).append(pod)
    fresh = by_job.pop("", [])
    for job, pods in sorted(by_job.items(), key=lambda pair: int(pair[0])):
        _follow(view, plan, job, pods, fresh)
    plan.add(*(CancelJob(job) for job in view.strays if not view.elsewhere(job)))
    plan.add(*(RemoveFinalizer(pod) for pod in fresh if pod_state.is_gone(pod) and pod_state.has_finalizer(pod)))
    newcomers = [pod for pod in fresh if pod_state.is_waiting(pod)]
    if newcomers and not any(isinstance(action, ReviseJob) for action in plan.actions):
        _admit(view, plan, newcomers, by_job)
    return plan


def _admit(
    view: WorkloadSnapshot, plan: Plan, newcomers: list[WorkloadPod], by_job: Mapping[str, list[WorkloadPod]]
) -> None:
    """Pods without a job: submit them once the gang is whole, and say why not until then."""
    pods = tuple(newcomers)
    if view.root is None and (left := _arriving(view, pods)) > 0:
        plan.look_again(left)
        return
    if view.problem is not None:
        plan.add(WriteCondition(pods, view.problem, warning=view.root is not None))
    if view.root is None or view.problem is not None:
        return
    unsure = [job for job, group in by_job.items() if _sight(view, job) is JobKnowledge.UNKNOWN and _concern(group)]
    if unsure and not view.unit.is_single_pod:
        plan.add(
            WriteCondition(
                pods, ConditionText(None, "SlurmUnknown", f"Slurm does not tell what became of job {unsure[0]}.")
            )
        )
        return
    there = _there(view)
    if there < view.root.min_members:
        if (left := _arriving(view, pods)) > 0:
            plan.look_again(left)
            return
        missing = f"{there} of {view.root.min_members} pods exist; all start together or none."
        hint = f" {view.root.hint}." if view.root.hint else ""
        plan.add(WriteCondition(pods, ConditionText(False, "GangIncomplete", missing + hint)))
        return
    plan.add(SubmitJob(pods))


def _may_wait(view: WorkloadSnapshot, pod: WorkloadPod) -> float:
    """For how long what there is to say of a node that a pod got a moment ago can wait while others want theirs."""
    condition = find_condition(pod.status.conditions, "PodScheduled")
    age = seconds_since(condition.last_transition_time, view.now) if condition else None
    return max(0.0, LATEST - age) if age is not None and age >= 0 else 0.0


def _arriving(view: WorkloadSnapshot, pods: Sequence[WorkloadPod]) -> float:
    """Seconds until a gang whose pods are being made counts as still: to tell each of every other would cost more than
    all the rest. A pod from the future means that clocks differ, and nothing can be said about its age.
    """
    ages = (seconds_since(pod.metadata.creation_timestamp, view.now) for pod in pods)
    return STILL - min((age for age in ages if age is not None and age >= 0), default=STILL)


def _follow(view: WorkloadSnapshot, plan: Plan, job: str, pods: list[WorkloadPod], fresh: list[WorkloadPod]) -> None:
    """A job and the pods that carry its name."""
    seen = view.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN))
    alive = [pod for pod in pods if not pod_state.is_gone(pod) and not _given_up(view, plan, pod)]
    if not alive:
        _finish(view, plan, job, seen, pods)
        return
    plan.add(*(RemoveFinalizer(pod) for pod in pods if pod_state.is_gone(pod) and pod_state.has_finalizer(pod)))
    if seen.sight in (JobKnowledge.OVER, JobKnowledge.FOREIGN):
        _ended(view, plan, job, seen, alive)
    elif seen.sight is JobKnowledge.LIVE and seen.record is not None:
        if bare := _bare(seen.record, alive):
            plan.add(LabelPods(job, bare))
        elif seen.record.state.pending:
            _pending(view, plan, job, seen, alive, fresh)
        elif seen.record.state.ready:
            _running(view, plan, job, seen, alive)
        elif seen.record.state.suspended:
            plan.add(WriteCondition(tuple(alive), conditions.of_suspended(job), warning=True))


def _bare(record: JobRecord, alive: list[WorkloadPod]) -> tuple[WorkloadPod, ...]:
    """Pods that lack the name of their job; those that we hold and that get a node now get it with that."""

    def soon(pod: WorkloadPod) -> bool:
        return record.state.ready and pod_state.has_finalizer(pod) and not pod_state.is_bound(pod)

    return tuple(pod for pod in alive if not pod_state.job_id(pod) and not soon(pod))


def _pending(
    view: WorkloadSnapshot, plan: Plan, job: str, seen: ObservedJob, alive: list[WorkloadPod], fresh: list[WorkloadPod]
) -> None:
    newcomers = [pod for pod in fresh if pod_state.is_waiting(pod)]
    members = [pod for pod in (*alive, *newcomers) if pod_state.is_waiting(pod)]
    if view.root is not None and (there := _there(view)) < view.root.min_members:
        said = ConditionText(
            False, "GangIncomplete", f"{there} of {view.root.min_members} pods are left; job {job} is withdrawn."
        )
        plan.add(DetachPods(tuple(alive), said), CancelJob(job))
        return
    if view.problem is not None and view.root is not None:
        plan.add(WriteCondition(tuple(members), view.problem, warning=True))
    elif newcomers or seen.stale:
        plan.add(ReviseJob(job, tuple(members)))
    elif seen.record is not None:
        plan.add(WriteCondition(tuple(members), conditions.of_pending(seen.record, view.place(seen.record))))


def _running(view: WorkloadSnapshot, plan: Plan, job: str, seen: ObservedJob, alive: list[WorkloadPod]) -> None:
    unbound = [pod for pod in alive if not pod_state.is_bound(pod)]
    if seen.record is None:
        return
    if not unbound:
        # News only if a crash came in between, or after a suspension.
        told = (
            (pod, conditions.of_running(seen.record, pod.spec.node_name)) for pod in alive if not pod.metadata.deleting
        )
        words = [WriteCondition((pod,), said) for pod, said in told if conditions.news(pod, said, view.now)]
        left = min((_may_wait(view, say.pods[0]) for say in words), default=0.0)
        if view.busy and left > 0:
            plan.hushed = True
            plan.look_again(left)
        else:
            plan.add(*words)
        return
    broken = view.root is not None and view.root.fixed_size and _there(view) < view.root.min_members
    if broken and len(unbound) == len(alive):
        said = ConditionText(
            False, "GangIncomplete", f"A member went away before job {job} started; all start together or none."
        )
        plan.add(DetachPods(tuple(alive), said), CancelJob(job))
    else:
        plan.add(PlacePods(job, tuple(alive)))


def _ended(view: WorkloadSnapshot, plan: Plan, job: str, seen: ObservedJob, alive: list[WorkloadPod]) -> None:
    """The job is over and pods are not: those that run leave, those that wait are submitted again or stay."""
    record = seen.record if seen.sight is JobKnowledge.OVER else None
    end = reasons.end(record.state.base if record else "", lost=record is None or record.lost)
    detail = record.detail if record else None
    told = conditions.of_end(job, end, detail, waiting=False)
    bound = [pod for pod in alive if pod_state.is_bound(pod)]
    if running := tuple(pod for pod in bound if not pod.metadata.deleting):
        plan.add(RecoverJob(job, running, told) if end is reasons.LOST else EvictPods(running, told))
    if leaving := tuple(pod for pod in bound if pod.metadata.deleting and conditions.news(pod, told, view.now)):
        plan.add(ExplainEnd(leaving, told))
    unbound = tuple(pod for pod in alive if not pod_state.is_bound(pod))
    if unbound:
        said = conditions.of_end(job, end, detail, waiting=True)
        if end.decision:
            plan.add(WriteCondition(unbound, said, warning=True), WithdrawJob(unbound))
        else:
            plan.add(DetachPods(unbound, said))
    if seen.remains and len(unbound) == len(alive):
        plan.add(CancelJob(job))


def _finish(view: WorkloadSnapshot, plan: Plan, job: str, seen: ObservedJob, pods: list[WorkloadPod]) -> None:
    """No pod of the job is left: end it, then let the pods go. A job of which nothing is known is waited for.

    Somebody may have moved pods of the job to another group, or out of all: then the last of them ends it.
    """
    held = [pod for pod in pods if pod_state.has_finalizer(pod)]
    if seen.sight is JobKnowledge.UNKNOWN:
        return
    if (seen.sight is JobKnowledge.LIVE or seen.remains) and not view.elsewhere(job):
        plan.add(CancelJob(job, outcome.of(pods)))
    plan.add(*(RemoveFinalizer(pod) for pod in held if not _mentioned(plan, pod)))


def _given_up(view: WorkloadSnapshot, plan: Plan, pod: WorkloadPod) -> bool:
    """A deleted pod whose kubelet will not tell its end: its machine is gone, or silent beyond the deadline."""
    if not (pod.metadata.deleting and pod_state.is_bound(pod)):
        return False
    reachable = view.reachable(pod.spec.node_name)
    if reachable:
        return False
    left = pod_state.seconds_until_overdue(pod, view.now, view.patience if reachable is not None else 0.0)
    if left is not None and left > 0:
        plan.look_again(left)
        return False
    if pod_state.has_finalizer(pod):
        plan.add(
            RemoveFinalizer(pod, f"Node {pod.spec.node_name} does not answer; the pod is given up and its job ended.")
        )
    return True


def _there(view: WorkloadSnapshot) -> int:
    """Members that run or want to, whichever job they have. Who leaves does not count, nor who has lost its job.

    One that has succeeded is needed until the object that made it has counted it.
    """
    lost = {job for job, seen in view.jobs.items() if seen.sight in (JobKnowledge.OVER, JobKnowledge.FOREIGN)}
    staying = (
        pod for pod in view.pods if not (pod_state.is_gone(pod) or pod_state.is_gated(pod) or pod.metadata.deleting)
    )
    there = sum(pod_state.job_id(pod) not in lost for pod in staying)
    if view.root is None or view.root.succeeded is None:
        return there
    return there + max(0, sum(pod.status.phase == "Succeeded" for pod in view.pods) - view.root.succeeded)


def _concern(pods: Iterable[WorkloadPod]) -> bool:
    """Some pod still runs, waits, or is held by us."""
    return any(pod_state.has_finalizer(pod) or not pod_state.is_gone(pod) for pod in pods)


def _mentioned(plan: Plan, pod: WorkloadPod) -> bool:
    return any(isinstance(action, RemoveFinalizer) and action.pod is pod for action in plan.actions)


def _sight(view: WorkloadSnapshot, job: str) -> JobKnowledge:
    return view.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN)).sight
