# SPDX-License-Identifier: Apache-2.0
"""An explanation names what blocks a job, everything else that also holds, and the next step."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.insight.queues import NOW, cluster, host, job, running

from slinky.insight.explain import Topic, explain_job
from slinky.insight.limit_reasons import LIMIT_TOKENS
from slinky.insight.pending_reasons import REASONS
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Job, License, Reservation, number
from slinky.slurm.model.accounts import Association, AssociationMax, AssociationTres, JobLimits, TresMinutes, TresPer
from slinky.slurm.model.partitions import (
    Allowed,
    Partition,
    PartitionMaximums,
    PartitionMinimums,
    PartitionMode,
    PartitionQos,
)
from slinky.slurm.model.qos import (
    ActiveJobs,
    Qos,
    QosLimits,
    QosMax,
    QosMin,
    QosMinTres,
    QosTres,
    WallClock,
    WallPer,
)
from slinky.slurm.model.values import Tres
from slinky.slurm.model.views import FairShare, Share

BUSY = tuple(host(f"n{n}", words=("ALLOCATED",), alloc_cpus=16, gres_used="gpu:h100:8(IDX:0-7)") for n in range(1, 5))
UP = PartitionMode(state=("UP",))


def partition(**fields: Any) -> dict[str, Any]:
    return {"partitions": (Partition(name="work", **({"partition": UP} | fields)),)}


NO_MAXIMUM, NO_MINIMUM = QosMax(), QosMin()


def qos(limits: QosMax = NO_MAXIMUM, minimum: QosMin = NO_MINIMUM) -> dict[str, Any]:
    return {"qos": (Qos(name="normal", limits=QosLimits(max=limits, min=minimum)),)}


def reservation(name: str, hosts: str, begins: int, ends: int, **fields: Any) -> dict[str, Any]:
    times: dict[str, Any] = {"start_time": number(NOW + begins), "end_time": number(NOW + ends)}
    return {"reservations": (Reservation(name=name, node_list=hosts, **times, **fields),)}


GPUS = (Tres(type="gres", name="gpu", count=4),)
RUNNING = running(7, "n1", gpus=3, user_name="bob")

CASES: list[tuple[str, Job, dict[str, Any], Topic, list[str]]] = [
    ("held by user", job(1, hold=True, priority=number(0), state_reason="JobHeldUser"), {}, Topic.HOLD,
     ["held by its user", "scontrol release 1"]),
    ("held by admin", job(1, hold=True, state_reason="JobHeldAdmin", admin_comment="abuse"), {}, Topic.HOLD,
     ["An administrator holds", "wrote: abuse"]),
    ("held after requeue", job(1, hold=True, state_reason="JobHoldMaxRequeue", restart_cnt=5), {}, Topic.HOLD,
     ["requeued 5 times", "sacct -D -j 1"]),
    ("begin time", job(1, eligible_time=number(NOW + 7200), state_reason="BeginTime"), {}, Topic.BEGIN_TIME,
     ["in 2 h", "StartTime=now"]),
    ("dependency on a running job", job(1, dependency="afterok:7(unfulfilled)", state_reason="Dependency"),
     {"jobs": (RUNNING,)}, Topic.DEPENDENCY, ["afterok of job 7, which is running (of bob) and ends within 50 min"]),
    ("dependency on a purged job", job(1, dependency="afterany:99(unfulfilled)", state_reason="Dependency"), {},
     Topic.DEPENDENCY, ["job 99, which slurmctld no longer knows"]),
    ("impossible dependency", job(1, dependency="afterok:9(failed)", state_reason="DependencyNeverSatisfied"), {},
     Topic.DEPENDENCY, ["can no longer come true", "scancel 1"]),
    ("partition down", job(1, state_reason="PartitionDown"), partition(partition=PartitionMode(state=("DOWN",))),
     Topic.PARTITION, ["The partition work is down", "State=UP"]),
    ("unknown partition", job(1, partition="wrk", state_reason="PartitionConfig"), {}, Topic.PARTITION,
     ["There is no partition wrk", "Use one of work"]),
    ("partition time", job(1, minutes=600, state_reason="PartitionTimeLimit"),
     partition(maximums=PartitionMaximums(time=number(60))), Topic.PARTITION,
     ["10 h exceeds the 1 h", "TimeLimit=60"]),
    ("partition nodes", job(1, nodes=3, state_reason="PartitionNodeLimit"),
     partition(maximums=PartitionMaximums(nodes=number(2))), Topic.PARTITION, ["allows at most 2"]),
    ("partition minimum", job(1, state_reason="PartitionNodeLimit"),
     partition(minimums=PartitionMinimums(nodes=2)), Topic.PARTITION, ["requires at least 2"]),
    ("partition too small", job(1, nodes=9, state_reason="PartitionNodeLimit"), {}, Topic.PARTITION,
     ["requests 9 nodes, and the partition work has 4", "Scale the NodeSet"]),
    ("account", job(1, state_reason="AccountNotAllowed"), partition(accounts=Allowed(allowed="gold,silver")),
     Topic.ACCESS, ["does not allow the account lab", "gold and silver"]),
    ("qos of the partition", job(1, state_reason="QOSNotAllowed"), partition(qos=PartitionQos(deny="normal")),
     Topic.ACCESS, ["does not allow the QOS normal"]),
    ("feature", job(1, features="arm", state_reason="BadConstraints"), {}, Topic.FEATURES,
     ["has the feature arm"]),
    ("too large per node", job(1, cpus=64, state_reason="BadConstraints"), {}, Topic.FEATURES,
     ["64 CPUs (16)"]),
    ("reservation starts later", job(1, resv_name="class", state_reason="Reservation"),
     reservation("class", "n1", 3600, 7200, users="alice"), Topic.RESERVATION, ["class of the job starts in 1 h"]),
    ("reservation of others", job(1, resv_name="class", state_reason="Reservation"),
     reservation("class", "n1", -60, 7200, users="bob"), Topic.RESERVATION, ["is for bob"]),
    ("reservation deleted", job(1, resv_name="class", state_reason="ReservationDeleted"), {}, Topic.RESERVATION,
     ["does not exist", "ReservationName="]),
    ("maintenance", job(1, minutes=600, nodes=2, state_reason="ReqNodeNotAvail"),
     reservation("maint", "n[1-4]", 5400, 9000, flags=("MAINT",)), Topic.RESERVATION,
     ["maint for maintenance takes nodes that the job needs in 1 h 30 min", "TimeLimit=90"]),
    ("QOS group", job(1, gpus=2, state_reason="QOSGrpGRES"),
     {**qos(QosMax(tres=QosTres(total=GPUS))), "jobs": (RUNNING,)}, Topic.LIMIT,
     ["The QOS normal has a limit of 4 GPUs: 3 GPUs in use by 1 job of bob, and the job needs 2 GPUs", "job 7"]),
    ("QOS per user", job(1, gpus=2, state_reason="QOSMaxGRESPerUser"),
     {**qos(QosMax(tres=QosTres(per=TresPer(user=GPUS)))), "jobs": (running(7, "n1", gpus=3),)}, Topic.LIMIT,
     ["QOS normal for the user alice"]),
    ("QOS per job", job(1, gpus=5, state_reason="QOSMaxGRESPerJob"),
     qos(QosMax(tres=QosTres(per=TresPer(job=GPUS)))), Topic.LIMIT, ["waiting does not help"]),
    ("QOS minimum", job(1, gpus=1, state_reason="QOSMinGRES"),
     qos(minimum=QosMin(QosMinTres(TresPer(job=GPUS)))), Topic.LIMIT, ["requires at least 4 GPUs"]),
    ("QOS jobs", job(1, state_reason="QOSGrpJobsLimit"),
     {**qos(QosMax(active_jobs=ActiveJobs(count=number(1)))), "jobs": (RUNNING,)}, Topic.LIMIT,
     ["may run 1 job at the same time, and 1 runs (job 7)"]),
    ("QOS wall", job(1, minutes=600, state_reason="QOSMaxWallDurationPerJobLimit"),
     qos(QosMax(wall_clock=WallClock(WallPer(job=number(60))))), Topic.LIMIT, ["10 h exceeds the 1 h"]),
    ("QOS per node", job(1, gpus=5, state_reason="QOSMaxGRESPerNode"),
     qos(QosMax(tres=QosTres(per=TresPer(node=GPUS)))), Topic.LIMIT,
     ["requests 5 GPUs on a node", "at most 4 GPUs on each"]),
    ("QOS minutes of a job", job(1, gpus=2, state_reason="QOSMaxGRESMinutesPerJob"),
     qos(QosMax(tres=QosTres(minutes=TresMinutes(per=TresPer(job=GPUS))))), Topic.LIMIT,
     ["asks for 120 GPU minutes", "allow a job at most 4", "waiting does not help"]),
    ("QOS minutes of running jobs", job(1, gpus=2, state_reason="QOSGrpGRESRunMinutes"),
     {**qos(QosMax(tres=QosTres(minutes=TresMinutes(per=TresPer(qos=(Tres(type="gres", name="gpu", count=200),)))))),
      "jobs": (RUNNING,)}, Topic.LIMIT,
     ["may still use 200 GPU minutes by their time limits: 150 are taken by 1 job of bob", "asks for 120"]),
    ("QOS minutes that are used up", job(1, gpus=2, state_reason="QOSGrpGRESMinutes"),
     qos(QosMax(tres=QosTres(minutes=TresMinutes(total=GPUS)))), Topic.LIMIT,
     ["may use 4 GPU minutes in all, and fewer are left than the job asks for (120)", "an administrator raises"]),
    ("QOS wall-clock time that is used up", job(1, state_reason="QOSGrpWallLimit"),
     qos(QosMax(wall_clock=WallClock(WallPer(qos=number(600))))), Topic.LIMIT,
     ["may run for 10 h in all, and less is left than the time limit of the job (1 h)"]),
    ("QOS threshold", job(1, state_reason="QOSUsageThreshold"),
     {"qos": (Qos(name="normal", usage_threshold=number(0.5)),),
      "shares": (Share(name="alice", parent="lab", fairshare=FairShare(factor=number(0.25))),)}, Topic.LIMIT,
     ["fair-share factor of 0.250 of user alice in account lab is below 0.5", "QOS normal"]),
    ("QOS that the user may not use", job(1, qos="gold", state_reason="InvalidQOS"),
     {"associations": (Association(account="lab", user="alice", qos=("normal", "high")),)}, Topic.ACCESS,
     ["user alice in account lab may not use the QOS gold", "QOS=NAME` with one of high and normal"]),
    ("account that the user may not use", job(1, state_reason="InvalidAccount"),
     {"associations": (Association(account="team", user="alice"),)}, Topic.ACCESS,
     ["user alice may not use the account lab", "Account=NAME` with one of team"]),
    ("memory of the partition", job(1, state_reason="MaxMemPerLimit"),
     partition(maximums=PartitionMaximums(partition_memory_per_node=number(50))), Topic.PARTITION,
     ["requests 100 MB of memory per node; the partition work allows at most 50 MB"]),
    ("account group", job(1, gpus=2, state_reason="AssocGrpGRES"),
     {"associations": (Association(account="lab", parent_account="root", max=AssociationMax(
         tres=AssociationTres(total=GPUS))),), "jobs": (RUNNING,)}, Topic.LIMIT, ["The account lab has a limit of 4"]),
    ("user jobs", job(1, state_reason="AssocMaxJobsLimit"),
     {"associations": (Association(account="lab", user="alice", max=AssociationMax(
         jobs=JobLimits(active=number(1)))),), "jobs": (running(7, "n1"),)}, Topic.LIMIT,
     ["user alice in account lab"]),
    ("array", job(1, array_job_id=number(1), array_max_tasks=number(1), array_task_string="1-9%1",
                  state_reason="JobArrayTaskLimit"),
     {"jobs": (running(7, "n1", array_job_id=number(1), array_task_id=number(0)),)}, Topic.ARRAY,
     ["1 task of the array runs", "ArrayTaskThrottle=2", "9 tasks wait, 1 run and 0 have ended"]),
    ("licences", job(1, licenses="lic:3", state_reason="Licenses"),
     {"licenses": (License(license_name="lic", total=4, used=2, free=2),),
      "jobs": (running(7, "n1", licenses="lic:2"),)},
     Topic.LICENSES, ["needs 3 licences lic; 2 of 4 are free", "job 7 of alice"]),
    ("busy nodes", job(1, nodes=2, gpus=8), {"hosts": BUSY, "jobs": (running(7, "n[1-4]", user_name="bob"),)},
     Topic.NODES, ["needs 2 nodes with 100 MB and 8 gpu each", "4 busy", "job 7 of bob, ends within 50 min"]),
    ("drained nodes", job(1, nodes=2), {"hosts": tuple(
        host(f"n{n}", words=("IDLE", "DRAIN"), reason="bad\x1b[31m DIMM", reason_set_by_user="ops",
             reason_changed_at=number(NOW - 90000)) for n in (1, 2))},
     Topic.NODES, ["n[1-2] are drained by ops 1 d 1 h ago: bad\\x1b[31m DIMM"]),
    ("priority", job(9, state_reason="Priority"), {"jobs": (job(2, user_name="bob", nodes=4),)}, Topic.PRIORITY,
     ["1 job of higher priority wants the same nodes: job 2 of bob", "position 2 of 2 eligible jobs"]),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "fields", "topic", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_blocking_thing_is_named(subject: Job, fields: dict[str, Any], topic: Topic, words: list[str]) -> None:
    others = fields.pop("jobs", ()) if "jobs" in (fields := dict(fields)) else ()
    explanation = explain_job(subject, cluster(subject, *others, **fields))
    assert explanation.findings[0].topic is topic
    text = explanation.paragraph()
    assert [word for word in words if word not in text] == [], text
    assert text.isprintable()


def test_reasons_that_slurm_does_not_show_are_named_too() -> None:
    subject = job(1, gpus=2, minutes=600, licenses="lic:3", hold=True, state_reason="JobHeldUser")
    explanation = explain_job(
        subject,
        cluster(
            subject,
            RUNNING,
            licenses=(License(license_name="lic", total=4, used=4),),
            **qos(QosMax(tres=QosTres(total=GPUS))),
            **partition(maximums=PartitionMaximums(time=number(60))),
        ),
    )
    assert [finding.topic for finding in explanation.findings] == [
        Topic.HOLD,
        Topic.PARTITION,
        Topic.LIMIT,
        Topic.LICENSES,
    ]
    assert explanation.paragraph().count("Also: ") == 3


def test_a_gang_is_explained_as_a_whole() -> None:
    first = job(1, het_job_id=number(1), het_job_offset=number(0))
    second = job(2, het_job_id=number(1), het_job_offset=number(1), features="arm", state_reason="BadConstraints")
    text = explain_job(first, cluster(first, second)).paragraph()
    assert "gang of 2 components (jobs 1, 2)" in text
    assert "has the feature arm" in text


def test_the_parts_of_a_priority_are_computed() -> None:
    subject = job(1, priority=number(7520), submit_time=number(NOW - 86400), eligible_time=number(NOW - 86400))
    shares = (Share(name="alice", parent="lab", fairshare=FairShare(factor=number(0.5))),)
    conf = {
        "PriorityWeightAge": 1000,
        "PriorityWeightFairshare": 10000,
        "PriorityWeightQOS": 5000,
        "PriorityMaxAge": "7-00:00:00",
    }
    qualities = (Qos(name="normal", priority=number(50)), Qos(name="high", priority=number(100)))
    rank = explain_job(subject, cluster(subject, shares=shares, conf=conf, qos=qualities)).rank
    assert rank is not None
    assert rank.parts == {"fair share": 5000, "QOS": 2500, "age": 143}


def test_an_unknown_reason_passes_through_verbatim() -> None:
    subject = job(1, state_reason="SunSpots", state_description="class X")
    text = explain_job(subject, cluster(subject)).paragraph()
    assert "Slurm reports SunSpots. Slurm adds: class X." in text


def test_what_could_not_be_read_is_said() -> None:
    subject = job(1)
    assert "Not known: accounting." in explain_job(subject, cluster(subject, unknown=("accounting",))).paragraph()


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (running(7, "n1"), "It ends in 50 min at the latest"),
        (job(1, job_state=("FAILED",), state_reason="NonZeroExitCode", end_time=number(NOW - 60)), "1 min ago"),
    ],
)
def test_a_job_that_does_not_wait_is_described(subject: Job, words: str) -> None:
    assert words in explain_job(subject, cluster(subject)).paragraph()


@pytest.mark.parametrize("token", [*REASONS, *LIMIT_TOKENS])
def test_every_reason_is_explained_on_an_empty_cluster(token: str) -> None:
    subject = job(1, state_reason=token)
    assert len(explain_job(subject, QueueSnapshot(now=NOW, jobs=(subject,))).paragraph()) > 40


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.text(max_size=40)
            for name in (
                "name", "user_name", "state_reason", "state_description", "dependency", "licenses", "features",
                "partition", "resv_name", "required_nodes", "excluded_nodes", "tres_req_str", "array_task_string",
                "qos",
            )
        },
    )
)  # fmt: skip
def test_hostile_texts_neither_raise_nor_reach_the_terminal(fields: dict[str, Any]) -> None:
    subject = job(1, **fields)
    text = explain_job(subject, cluster(subject)).paragraph()
    assert text.isprintable()


def test_a_long_comment_is_cut() -> None:
    subject = job(1, hold=True, admin_comment="x" * 1_000_000, name="y" * 1_000_000, state_reason="z" * 1_000_000)
    assert len(explain_job(subject, cluster(subject)).paragraph()) < 3000


def test_a_job_at_a_limit_does_not_stand_before_others() -> None:
    ahead = job(1, nodes=4, state_reason="QOSGrpNodeLimit")
    paragraph = explain_job(job(2), cluster(ahead, job(2))).paragraph()
    assert "higher priority" not in paragraph


def test_names_of_qos_are_compared_as_slurm_compares_them() -> None:
    limited = qos(QosMax(active_jobs=ActiveJobs(count=number(1))))
    snapshot = cluster(job(1, qos="Normal", state_reason="QOSGrpJobsLimit"), running(7, "n1", qos="NORMAL"), **limited)
    assert "The QOS normal may run 1 job" in explain_job(snapshot.jobs[0], snapshot).paragraph()


def test_a_qos_that_may_run_no_job_needs_an_administrator() -> None:
    snapshot = cluster(job(1), **qos(QosMax(active_jobs=ActiveJobs(count=number(0)))))
    assert "The QOS normal may run no job." in explain_job(job(1), snapshot).paragraph()


def test_a_job_that_no_node_can_run_is_not_held_by_its_user() -> None:
    held = job(1, features="arm", priority=number(0), state_reason="BadConstraints")
    assert "held by its user" not in explain_job(held, cluster(held)).paragraph()


def test_a_reservation_of_other_nodes_is_not_named() -> None:
    wide = job(1, nodes=9, minutes=600)
    snapshot = cluster(wide, **reservation("night", "x[1-4]", 3600, 7200))
    assert "night" not in explain_job(wide, snapshot).paragraph()
