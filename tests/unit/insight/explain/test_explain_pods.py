# SPDX-License-Identifier: Apache-2.0
"""What pods and gangs without a Slurm job wait for, and what a NodeSet lacks."""

from tests.unit.insight.queues import NOW, cluster, host

from slinky.insight.explain import GangFacts, NodeSetFacts, PodFacts, explain_node_set, explain_pods
from slinky.insight.explain.node_set import ConditionFacts, WorkerFacts
from slinky.slurm import number

INCOMPLETE = "3 of 4 pods of the gang exist; all start together or none."


def pod(name: str, **fields: str) -> PodFacts:
    return PodFacts("team", name, **({"scheduler": "slurm-bridge"} | fields))


def test_the_missing_member_of_a_gang_is_named_once() -> None:
    pods = tuple(pod(name, reason="GangIncomplete", message=INCOMPLETE) for name in ("a", "b", "c"))
    explanation = explain_pods(GangFacts("gang", "team", "train", pods))
    assert explanation.reason == "GangIncomplete"
    assert explanation.paragraph() == (
        "Gang team/train is waiting for a Slurm job. Pods a, b and c: 3 of 4 pods of the gang exist; all start "
        "together or none (GangIncomplete). It has 3 pods, of which 0 have a node; it is not in Slurm yet."
    )


def test_a_refused_annotation_is_quoted() -> None:
    message = "A job option cannot be used: slurmjob.slinky.slurm.net/timelimit is 'soon'. Correct the annotation."
    text = explain_pods(GangFacts("pod", "team", "a", (pod("a", reason="InvalidOption", message=message),))).paragraph()
    assert "timelimit is 'soon'. Correct the annotation (InvalidOption)." in text


def test_a_pod_of_another_scheduler_is_recognised() -> None:
    text = explain_pods(GangFacts("pod", "team", "a", (pod("a", scheduler="default-scheduler"),))).paragraph()
    assert "scheduler name default-scheduler is not its own" in text
    assert "Next step: Compare `schedulerName`" in text


def test_a_container_that_cannot_start_is_named_with_its_node() -> None:
    broken = pod("a", job_id="7", node="k1", fault="container main waits (ImagePullBackOff): no such image")
    explanation = explain_pods(GangFacts("gang", "team", "train", (broken, pod("b", job_id="7", node="k2"))))
    assert explanation.state == "in Slurm as job 7"
    assert "Pod a cannot start on node k1: container main waits (ImagePullBackOff)" in explanation.paragraph()
    assert explanation.findings[0].blockers == ("pod a",)


def test_hostile_messages_are_escaped_and_bounded() -> None:
    text = explain_pods(GangFacts("pod", "n", "a", (pod("a", reason="x", message="\x1b[2J" * 10**5),))).paragraph()
    assert "\x1b" not in text
    assert len(text) < 2000


def test_a_node_set_names_the_worker_that_cannot_start_and_the_drained_one() -> None:
    workers = (
        WorkerFacts(PodFacts("slurm", "gpu-0", fault="container slurmd waits (ErrImagePull): not found"), "gpu-0"),
        WorkerFacts(PodFacts("slurm", "gpu-1"), "gpu-1"),
    )
    facts = NodeSetFacts(
        "slurm", "gpu", desired=3, ready=1, updated=2,
        conditions=(ConditionFacts("Degraded", "True", "ImagePull", "The image cannot be pulled."),),
        workers=workers, scaling="2 jobs need 3 workers.", impossible=("Job 7: 99 GPUs",),
    )  # fmt: skip
    drained = host(
        "gpu-1", words=("IDLE", "DRAIN"), reason="fan", reason_set_by_user="root", reason_changed_at=number(NOW - 60)
    )
    explanation = explain_node_set(facts, cluster(hosts=(drained,)))
    assert (explanation.state, explanation.reason) == ("degraded", "ImagePull")
    text = explanation.paragraph()
    for part in (
        "The image cannot be pulled (ImagePull).",
        "The worker gpu-0 cannot start: container slurmd waits (ErrImagePull): not found.",
        "1 of the 3 workers does not exist yet.",
        "1 worker starts no jobs. Unavailable: gpu-1 is drained by root 1 min ago: fan.",
        "Ready: 1 of 3 workers; up to date: 2.",
        "Autoscaler: 2 jobs need 3 workers.",
        "No worker can run Job 7: 99 GPUs.",
    ):
        assert part in text


def test_a_node_set_that_is_ready_has_nothing_to_say() -> None:
    facts = NodeSetFacts("slurm", "gpu", 1, 1, 1, conditions=(ConditionFacts("Ready", "True", "Ready"),))
    worker = WorkerFacts(PodFacts("slurm", "gpu-0"), "gpu-0")
    explanation = explain_node_set(
        NodeSetFacts(facts.namespace, facts.name, 1, 1, 1, facts.conditions, (worker,)), cluster(hosts=(host("gpu-0"),))
    )
    assert explanation.paragraph() == "NodeSet slurm/gpu is ready. Ready: 1 of 1 worker; up to date: 1."
