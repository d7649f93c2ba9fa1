# SPDX-License-Identifier: Apache-2.0
"""Group limits and their use."""

from tests.unit.exporter.test_families import job

from slinky.insight.group_limits import GroupLimits, LimitKey, LimitOwner, group_limits, limit_use
from slinky.slurm import INFINITE, Tres, number
from slinky.slurm.model.accounts import Association, AssociationMax, AssociationTres, JobLimits, JobsPer
from slinky.slurm.model.qos import ActiveJobs, Qos, QosLimits, QosMax, QosTres

GPUS = Tres("gres", "gpu", count=8)
HIGH = Qos("high", limits=QosLimits(max=QosMax(ActiveJobs(count=number(2)), tres=QosTres(total=(GPUS,)))))
ALL = AssociationMax(jobs=JobLimits(per=JobsPer(count=INFINITE)), tres=AssociationTres(total=(Tres("mem", count=10),)))
TREE = (
    Association("root", cluster="c1"),
    Association("physics", cluster="c1", parent_account="root", max=ALL),
    Association("laser", cluster="c1", parent_account="physics"),
    Association(
        "laser", cluster="c1", user="eve", max=AssociationMax(jobs=JobLimits(per=JobsPer(submitted=number(5))))
    ),
    Association("physics", cluster="elsewhere", parent_account="root", max=ALL),
    Association("laser", cluster="c1", user="eve", partition="gpu", max=ALL),
)
QOS_GPUS = LimitKey(LimitOwner.QOS, "high", "gres/gpu")
QOS_JOBS = LimitKey(LimitOwner.QOS, "high", "jobs")
MEMORY = LimitKey(LimitOwner.ACCOUNT, "physics", "mem")
SUBMITTED = LimitKey(LimitOwner.USER, "laser/eve", "submitted_jobs")


def test_limits_that_are_set_are_known() -> None:
    limits = group_limits((HIGH,), TREE, "c1")
    assert limits.amounts == {QOS_GPUS: 8, QOS_JOBS: 2, MEMORY: 10 * 2**20, SUBMITTED: 5}
    assert limits.parents["laser"] == "physics"


def test_jobs_use_the_limits_of_their_qos_and_of_every_account_above() -> None:
    use = {"account": "laser", "user_name": "eve", "qos": "high"}
    jobs = (
        job("1", "RUNNING", tres_alloc_str="cpu=2,mem=4M,gres/gpu=3", **use),
        job("2", "RUNNING", tres_alloc_str="mem=1M", **{**use, "account": "physics"}),
        job("3", "PENDING", tres_req_str="mem=99M", **use),
        job("4", "COMPLETED", tres_alloc_str="mem=99M", **use),
    )
    assert limit_use(group_limits((HIGH,), TREE, "c1"), jobs) == {
        QOS_GPUS: 3,
        QOS_JOBS: 2,
        MEMORY: 5 * 2**20,
        SUBMITTED: 2,
    }


def test_accounts_that_are_their_own_ancestors_end_the_search() -> None:
    limits = GroupLimits({LimitKey(LimitOwner.ACCOUNT, "a", "jobs"): 1}, {"a": "b", "b": "a"})
    assert limit_use(limits, (job("1", "RUNNING", account="b"),)) == {LimitKey(LimitOwner.ACCOUNT, "a", "jobs"): 1}
