# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait for each reason that slurmctld gives: what the cluster has, what runs, and what is submitted.

All cases hold at the same time. A case that blocks nodes has a partition of its own, so that it delays no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Fields = Mapping[str, object]


@dataclass(frozen=True)
class PendingCase:
    """A job that waits for a reason.

    `runs` is a job that starts before it. `limits` are set on a QOS (or an account, if the reason is of an association)
    with the name of the reason. `then` are shell commands after the submission, in which `$job` is the job and `$other`
    the one that runs.
    """

    reason: str
    job: Fields = field(default_factory=dict)
    runs: Fields | None = None
    limits: str = ""
    then: str = ""
    name: str = ""

    @property
    def title(self) -> str:
        """The name of the case, which is also that of its job."""
        return self.name or self.reason

    @property
    def of_account(self) -> bool:
        """Whether the limits are those of an account."""
        return self.reason.startswith("Assoc")


def cpus(count: int) -> Fields:
    return {"tasks": count}


def gpus(count: int) -> Fields:
    return {"tres_per_node": f"gres/gpu:{count}"}


def memory(megabytes: int) -> Fields:
    return {"memory_per_node": {"set": True, "number": megabytes}}


def minutes(count: int) -> Fields:
    return {"time_limit": {"set": True, "number": count}}


def on(host: str) -> Fields:
    return {"required_nodes": [host]}


TWO_NODES: Fields = {"nodes": "2", "tasks": 2}

#: An external job cannot be an array; the workers of the partition `work` run batch jobs.
BATCH: Fields = {
    "flags": [],
    "partition": "work",
    "script": "#!/bin/sh\nexec sleep 600\n",
    "environment": ["PATH=/usr/bin:/bin"],
    "standard_output": "/dev/null",
}

#: Limits of QOS and associations: the limit, what runs, what waits.
LIMITS = (
    PendingCase("QOSGrpCpuLimit", cpus(2), cpus(3), "GrpTRES=cpu=4"),
    PendingCase("QOSGrpMemLimit", memory(300), memory(300), "GrpTRES=mem=500"),
    PendingCase("QOSGrpNodeLimit", on("k006"), on("k005"), "GrpTRES=node=1"),
    PendingCase("QOSGrpGRES", gpus(1), gpus(1), "GrpTRES=gres/gpu=1"),
    PendingCase("QOSGrpJobsLimit", {}, {}, "GrpJobs=1"),
    PendingCase("QOSGrpCPURunMinutesLimit", cpus(2), cpus(1), "GrpTRESRunMins=cpu=100"),
    PendingCase("QOSGrpCPUMinutesLimit", {}, None, "GrpTRESMins=cpu=0"),
    PendingCase("QOSGrpWallLimit", {}, None, "GrpWall=0"),
    PendingCase("QOSMaxCpuPerJobLimit", cpus(3), None, "MaxTRESPerJob=cpu=2"),
    PendingCase("QOSMaxNodePerJobLimit", TWO_NODES, None, "MaxTRESPerJob=node=1"),
    PendingCase("QOSMaxMemoryPerJob", memory(300), None, "MaxTRESPerJob=mem=200"),
    PendingCase("QOSMaxGRESPerJob", gpus(2), None, "MaxTRESPerJob=gres/gpu=1"),
    PendingCase("QOSMaxCpuPerNode", cpus(3), None, "MaxTRESPerNode=cpu=2"),
    PendingCase("QOSMaxCpuMinutesPerJobLimit", cpus(2), None, "MaxTRESMinsPerJob=cpu=100"),
    PendingCase("QOSMaxWallDurationPerJobLimit", {}, None, "MaxWall=30"),
    PendingCase("QOSMaxJobsPerUserLimit", {}, {}, "MaxJobsPerUser=1"),
    PendingCase("QOSMaxCpuPerUserLimit", cpus(2), cpus(1), "MaxTRESPerUser=cpu=2"),
    PendingCase("QOSMaxNodePerUserLimit", on("k006"), on("k005"), "MaxTRESPerUser=node=1"),
    PendingCase("QOSMaxGRESPerUser", gpus(1), gpus(1), "MaxTRESPerUser=gres/gpu=1"),
    PendingCase("QOSMaxMemoryPerUser", memory(300), memory(300), "MaxTRESPerUser=mem=500"),
    PendingCase("MaxJobsPerAccount", {}, {}, "MaxJobsPerAccount=1"),
    PendingCase("MaxCpuPerAccount", cpus(2), cpus(1), "MaxTRESPerAccount=cpu=2"),
    PendingCase("MaxGRESPerAccount", gpus(1), gpus(1), "MaxTRESPerAccount=gres/gpu=1"),
    PendingCase("QOSMinCpuNotSatisfied", {}, None, "MinTRESPerJob=cpu=4"),
    PendingCase("QOSMinGRES", gpus(1), None, "MinTRESPerJob=gres/gpu=2"),
    PendingCase("AssocGrpCpuLimit", cpus(2), cpus(3), "GrpTRES=cpu=4"),
    PendingCase("AssocGrpMemLimit", memory(300), memory(300), "GrpTRES=mem=500"),
    PendingCase("AssocGrpNodeLimit", on("k006"), on("k005"), "GrpTRES=node=1"),
    PendingCase("AssocGrpGRES", gpus(1), gpus(1), "GrpTRES=gres/gpu=1"),
    PendingCase("AssocGrpJobsLimit", {}, {}, "GrpJobs=1"),
    PendingCase("AssocGrpCPURunMinutesLimit", cpus(2), cpus(1), "GrpTRESRunMins=cpu=100"),
    PendingCase("AssocMaxJobsLimit", {}, {}, "MaxJobs=1"),
    PendingCase("AssocMaxCpuPerJobLimit", cpus(3), None, "MaxTRESPerJob=cpu=2"),
    PendingCase("AssocMaxNodePerJobLimit", TWO_NODES, None, "MaxTRESPerJob=node=1"),
    PendingCase("AssocMaxGRESPerJob", gpus(2), None, "MaxTRESPerJob=gres/gpu=1"),
    PendingCase("AssocMaxWallDurationPerJobLimit", {}, None, "MaxWall=30"),
)

WITHDRAW = "sacctmgr -i modify user alice where account=lab set qos-=withdrawn"

#: Everything else. The partitions, nodes and reservations are in `CLUSTER`.
OTHERS = (
    PendingCase("Resources", {"partition": "busy", "tasks": 16}, {"partition": "busy", "tasks": 16}),
    PendingCase("Priority", {"partition": "busy", "tasks": 16, "nice": 1000}),
    PendingCase("Dependency", {"dependency": "afterok:$other"}, {}),
    PendingCase("DependencyNeverSatisfied", {"dependency": "afterok:$other"}, {}, then="scancel $other"),
    PendingCase("BeginTime", {"begin_time": "+7200"}),
    PendingCase("JobHeldUser", {"hold": True}),
    PendingCase(
        "JobHeldAdmin",
        {"hold": True},
        then="scontrol hold $job; scontrol update JobId=$job AdminComment='ask the help desk'",
    ),
    PendingCase("JobArrayTaskLimit", {"array": "0-3%1", **BATCH}),
    PendingCase("PartitionDown", {"partition": "down"}),
    PendingCase(
        "PartitionInactive",
        {"partition": "inactive", "tasks": 16},
        then="scontrol update PartitionName=inactive State=INACTIVE",
    ),
    PendingCase("PartitionTimeLimit", {"partition": "short"}),
    PendingCase("PartitionNodeLimit", {"partition": "small", **TWO_NODES}),
    PendingCase("PartitionNodeLimit", {"partition": "single", **TWO_NODES}, name="SmallPartition"),
    PendingCase("PartitionConfig", {"partition": "staff"}, name="DeniedAccount"),
    PendingCase("QOSNotAllowed", {"partition": "urgent"}),
    PendingCase("MaxMemPerLimit", {"partition": "lean", **memory(2000)}),
    PendingCase(
        "BadConstraints",
        {"partition": "marked", "constraints": "blue"},
        {"partition": "marked", "tasks": 16},
        then="scontrol update NodeName=k009 AvailableFeatures=ext ActiveFeatures=ext",
    ),
    PendingCase("Reservation", {"partition": "single", "reservation": "workshop"}),
    PendingCase("Licenses", {"licenses": "lic:2"}, {"licenses": "lic:3"}),
    PendingCase("ReqNodeNotAvail", {"partition": "broken", "required_nodes": ["k010"]}),
    PendingCase("ReqNodeNotAvail", {"partition": "serviced"}, name="Maintenance"),
    PendingCase("Resources", {"partition": "broken", **TWO_NODES}, name="DrainedNode"),
    PendingCase("InvalidQOS", {"qos": "withdrawn"}, then=WITHDRAW),
)

CASES = (*LIMITS, *OTHERS)

#: Partitions, states of nodes and reservations. Nodes k001 to k006 are those of the cases with limits.
CLUSTER = """
partition() { scontrol create PartitionName=$1 MaxTime=INFINITE State=UP Nodes=$2 $3; }
partition roomy k[001-006]
partition busy k007
partition down k008 State=DOWN
partition inactive k007
partition short k008 MaxTime=10
partition small k[007-008] MaxNodes=1
partition single k008
partition staff k008 DenyAccounts=lab
partition urgent k008 AllowQos=high
partition lean k008 MaxMemPerNode=1000
partition marked k009
partition broken k[010-011]
partition serviced k012
scontrol update NodeName=k009 AvailableFeatures=ext,blue ActiveFeatures=ext,blue
scontrol update NodeName=k010 State=DRAIN Reason='broken fan'
reservation() { scontrol create reservation ReservationName=$1 Nodes=$2 StartTime=$3 Duration=60 Users=$4 $5; }
reservation workshop k008 now+2hours alice
reservation upgrade k012 now+30minutes root Flags=MAINT
"""
