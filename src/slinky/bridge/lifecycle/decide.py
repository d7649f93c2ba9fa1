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
    Cancel,
    Detach,
    Evict,
    Explain,
    Label,
    LetGo,
    Place,
    Plan,
    Reclaim,
    Revise,
    Say,
    Seen,
    Sight,
    Submit,
    Withdraw,
)
from slinky.bridge.state.views import Pod
from slinky.bridge.status import conditions, reasons
from slinky.bridge.status.conditions import Said
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Root, Unit
from slinky.kube.conditions import find
from slinky.slurm import JobRecord

#: How long no pod has come to a gang that is told that some are missing.
STILL = 2.0
#: How long words wait at most for those that want a node.
LATEST = 10.0


@dataclass(frozen=True)
class View:
    """All that is known of a unit at one moment."""

    unit: Unit
    pods: Sequence[Pod]
    jobs: Mapping[str, Seen]
    root: Root | None
    now: datetime
    problem: Said | None = None  # why its pods cannot be translated, or why there is no root
    patience: float = 120.0
    reachable: Callable[[str], bool | None] = lambda _: True  # None: no such node
    strays: Sequence[str] = ()  # jobs of this unit that no pod is labelled with
    place: Callable[[JobRecord], str] = lambda _: ""  # where a waiting job stands, in a sentence
    adopted: Mapping[str, str] = field(default_factory=dict)  # jobs of pods that do not carry their name, by pod uid
    busy: bool = False  # others are being given their nodes right now
    elsewhere: Callable[[str], bool] = lambda _: False  # whether pods that are not of this unit live by a job


def decide(view: View) -> Plan:
    """The next steps for a unit; an empty plan when there is nothing to do."""
    plan = Plan()
    by_job: dict[str, list[Pod]] = {}
    for pod in view.pods:
        by_job.setdefault(pod_state.job_id(pod) or view.adopted.get(pod.metadata.uid, ""), []).append(pod)
    fresh = by_job.pop("", [])
    for job, pods in sorted(by_job.items(), key=lambda pair: int(pair[0])):
        _follow(view, plan, job, pods, fresh)
    plan.add(*(Cancel(job) for job in view.strays if not view.elsewhere(job)))
    plan.add(*(LetGo(pod) for pod in fresh if pod_state.gone(pod) and pod_state.held(pod)))
    newcomers = [pod for pod in fresh if pod_state.waiting(pod)]
    if newcomers and not any(isinstance(action, Revise) for action in plan.actions):
        _admit(view, plan, newcomers, by_job)
    return plan


def _admit(view: View, plan: Plan, newcomers: list[Pod], by_job: Mapping[str, list[Pod]]) -> None:
    """Pods without a job: submit them once the gang is whole, and say why not until then."""
    pods = tuple(newcomers)
    if view.root is None and (left := _arriving(view, pods)) > 0:
        plan.look_again(left)
        return
    if view.problem is not None:
        plan.add(Say(pods, view.problem, warning=view.root is not None))
    if view.root is None or view.problem is not None:
        return
    unsure = [job for job, group in by_job.items() if _sight(view, job) is Sight.UNKNOWN and _concern(group)]
    if unsure and not view.unit.alone:
        plan.add(Say(pods, Said(None, "SlurmUnknown", f"Slurm does not tell what became of job {unsure[0]}.")))
        return
    there = _there(view)
    if there < view.root.needed:
        if (left := _arriving(view, pods)) > 0:
            plan.look_again(left)
            return
        missing = f"{there} of {view.root.needed} pods exist; all start together or none."
        hint = f" {view.root.hint}." if view.root.hint else ""
        plan.add(Say(pods, Said(False, "GangIncomplete", missing + hint)))
        return
    plan.add(Submit(pods))


def _may_wait(view: View, pod: Pod) -> float:
    """For how long what there is to say of a node that a pod got a moment ago can wait while others want theirs."""
    condition = find(pod.status.conditions, "PodScheduled")
    since = (condition.last_transition_time if condition else None) or ""
    age = _seconds(view, since) if since else LATEST
    return max(0.0, LATEST - age) if age >= 0 else 0.0


def _arriving(view: View, pods: Sequence[Pod]) -> float:
    """Seconds until a gang whose pods are being made counts as still: to tell each of every other would cost more than
    all the rest. A pod from the future means that clocks differ, and nothing can be said about its age.
    """
    ages = (_seconds(view, made) for pod in pods if (made := pod.metadata.creation_timestamp))
    return STILL - min((age for age in ages if age >= 0), default=STILL)


def _seconds(view: View, since: str) -> float:
    return (view.now - datetime.fromisoformat(since)).total_seconds()


def _follow(view: View, plan: Plan, job: str, pods: list[Pod], fresh: list[Pod]) -> None:
    """A job and the pods that carry its name."""
    seen = view.jobs.get(job, Seen(Sight.UNKNOWN))
    alive = [pod for pod in pods if not pod_state.gone(pod) and not _given_up(view, plan, pod)]
    if not alive:
        _finish(view, plan, job, seen, pods)
        return
    plan.add(*(LetGo(pod) for pod in pods if pod_state.gone(pod) and pod_state.held(pod)))
    if seen.sight in (Sight.OVER, Sight.FOREIGN):
        _ended(view, plan, job, seen, alive)
    elif seen.sight is Sight.LIVE and seen.record is not None:
        if bare := _bare(seen.record, alive):
            plan.add(Label(job, bare))
        elif seen.record.state.pending:
            _pending(view, plan, job, seen, alive, fresh)
        elif seen.record.state.ready:
            _running(view, plan, job, seen, alive)
        elif seen.record.state.suspended:
            plan.add(Say(tuple(alive), conditions.of_suspended(job), warning=True))


def _bare(record: JobRecord, alive: list[Pod]) -> tuple[Pod, ...]:
    """Pods that lack the name of their job; those that we hold and that get a node now get it with that."""

    def soon(pod: Pod) -> bool:
        return record.state.ready and pod_state.held(pod) and not pod_state.bound(pod)

    return tuple(pod for pod in alive if not pod_state.job_id(pod) and not soon(pod))


def _pending(view: View, plan: Plan, job: str, seen: Seen, alive: list[Pod], fresh: list[Pod]) -> None:
    newcomers = [pod for pod in fresh if pod_state.waiting(pod)]
    members = [pod for pod in (*alive, *newcomers) if pod_state.waiting(pod)]
    if view.root is not None and (there := _there(view)) < view.root.needed:
        said = Said(False, "GangIncomplete", f"{there} of {view.root.needed} pods are left; job {job} is withdrawn.")
        plan.add(Detach(tuple(alive), said), Cancel(job))
        return
    if view.problem is not None and view.root is not None:
        plan.add(Say(tuple(members), view.problem, warning=True))
    elif newcomers or seen.stale:
        plan.add(Revise(job, tuple(members)))
    elif seen.record is not None:
        plan.add(Say(tuple(members), conditions.of_pending(seen.record, view.place(seen.record))))


def _running(view: View, plan: Plan, job: str, seen: Seen, alive: list[Pod]) -> None:
    unbound = [pod for pod in alive if not pod_state.bound(pod)]
    if seen.record is None:
        return
    if not unbound:
        # News only if a crash came in between, or after a suspension.
        told = (
            (pod, conditions.of_running(seen.record, pod.spec.node_name)) for pod in alive if not pod.metadata.deleting
        )
        words = [Say((pod,), said) for pod, said in told if conditions.news(pod, said, view.now)]
        left = min((_may_wait(view, say.pods[0]) for say in words), default=0.0)
        if view.busy and left > 0:
            plan.hushed = True
            plan.look_again(left)
        else:
            plan.add(*words)
        return
    broken = view.root is not None and view.root.exact and _there(view) < view.root.needed
    if broken and len(unbound) == len(alive):
        said = Said(
            False, "GangIncomplete", f"A member went away before job {job} started; all start together or none."
        )
        plan.add(Detach(tuple(alive), said), Cancel(job))
    else:
        plan.add(Place(job, tuple(alive)))


def _ended(view: View, plan: Plan, job: str, seen: Seen, alive: list[Pod]) -> None:
    """The job is over and pods are not: those that run leave, those that wait are submitted again or stay."""
    record = seen.record if seen.sight is Sight.OVER else None
    end = reasons.end(record.state.base if record else "", lost=record is None or record.lost)
    detail = record.detail if record else None
    told = conditions.of_end(job, end, detail, waiting=False)
    bound = [pod for pod in alive if pod_state.bound(pod)]
    if running := tuple(pod for pod in bound if not pod.metadata.deleting):
        plan.add(Reclaim(job, running, told) if end is reasons.LOST else Evict(running, told))
    if leaving := tuple(pod for pod in bound if pod.metadata.deleting and conditions.news(pod, told, view.now)):
        plan.add(Explain(leaving, told))
    unbound = tuple(pod for pod in alive if not pod_state.bound(pod))
    if unbound:
        said = conditions.of_end(job, end, detail, waiting=True)
        if end.decision:
            plan.add(Say(unbound, said, warning=True), Withdraw(unbound))
        else:
            plan.add(Detach(unbound, said))
    if seen.remains and len(unbound) == len(alive):
        plan.add(Cancel(job))


def _finish(view: View, plan: Plan, job: str, seen: Seen, pods: list[Pod]) -> None:
    """No pod of the job is left: end it, then let the pods go. A job of which nothing is known is waited for.

    Somebody may have moved pods of the job to another group, or out of all: then the last of them ends it.
    """
    held = [pod for pod in pods if pod_state.held(pod)]
    if seen.sight is Sight.UNKNOWN:
        return
    if (seen.sight is Sight.LIVE or seen.remains) and not view.elsewhere(job):
        plan.add(Cancel(job, outcome.of(pods)))
    plan.add(*(LetGo(pod) for pod in held if not _mentioned(plan, pod)))


def _given_up(view: View, plan: Plan, pod: Pod) -> bool:
    """A deleted pod whose kubelet will not tell its end: its machine is gone, or silent beyond the deadline."""
    if not (pod.metadata.deleting and pod_state.bound(pod)):
        return False
    reachable = view.reachable(pod.spec.node_name)
    if reachable:
        return False
    left = pod_state.overdue(pod, view.now, view.patience if reachable is not None else 0.0)
    if left is not None and left > 0:
        plan.look_again(left)
        return False
    if pod_state.held(pod):
        plan.add(LetGo(pod, f"Node {pod.spec.node_name} does not answer; the pod is given up and its job ended."))
    return True


def _there(view: View) -> int:
    """Members that run or want to, whichever job they have. Who leaves does not count, nor who has lost its job.

    One that has succeeded is needed until the object that made it has counted it.
    """
    lost = {job for job, seen in view.jobs.items() if seen.sight in (Sight.OVER, Sight.FOREIGN)}
    staying = (pod for pod in view.pods if not (pod_state.gone(pod) or pod_state.gated(pod) or pod.metadata.deleting))
    there = sum(pod_state.job_id(pod) not in lost for pod in staying)
    if view.root is None or view.root.counted is None:
        return there
    return there + max(0, sum(pod.status.phase == "Succeeded" for pod in view.pods) - view.root.counted)


def _concern(pods: Iterable[Pod]) -> bool:
    """Some pod still runs, waits, or is held by us."""
    return any(pod_state.held(pod) or not pod_state.gone(pod) for pod in pods)


def _mentioned(plan: Plan, pod: Pod) -> bool:
    return any(isinstance(action, LetGo) and action.pod is pod for action in plan.actions)


def _sight(view: View, job: str) -> Sight:
    return view.jobs.get(job, Seen(Sight.UNKNOWN)).sight
