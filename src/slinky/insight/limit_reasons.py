# SPDX-License-Identifier: Apache-2.0
"""The pending reasons that name a limit of an association or a QOS. Pure.

Slurm has more than a hundred of them, and each name says what it limits: `QOSMaxGRESPerUser` is the limit of a QOS on
the GRES of one user. `parse_limit` reads the name, so that one sentence per kind of limit explains all of them.
"""

import re
from dataclasses import dataclass
from enum import Enum

_NAMES = """
AssocGrpCpuLimit AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit AssocGrpJobsLimit AssocGrpMemLimit
AssocGrpNodeLimit AssocGrpSubmitJobsLimit AssocGrpWallLimit AssocGrpUnknown AssocGrpUnknownMinutes
AssocGrpUnknownRunMinutes AssocGrpMemMinutes AssocGrpMemRunMinutes AssocGrpNodeMinutes AssocGrpNodeRunMinutes
AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES AssocGrpGRESMinutes
AssocGrpGRESRunMinutes AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes AssocGrpBB
AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling AssocGrpBillingMinutes AssocGrpBillingRunMinutes
AssocMaxJobsLimit AssocMaxCpuPerJobLimit AssocMaxCpuMinutesPerJobLimit AssocMaxNodePerJobLimit
AssocMaxWallDurationPerJobLimit AssocMaxSubmitJobLimit AssocMaxUnknownPerJob AssocMaxUnknownPerNode
AssocMaxUnknownMinutesPerJob AssocMaxCpuPerNode AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxMemMinutesPerJob
AssocMaxNodeMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode AssocMaxEnergyMinutesPerJob
AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxGRESMinutesPerJob AssocMaxLicensePerJob
AssocMaxLicenseMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBBMinutesPerJob AssocMaxBillingPerJob
AssocMaxBillingPerNode AssocMaxBillingMinutesPerJob
QOSGrpCpuLimit QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpJobsLimit QOSGrpMemLimit QOSGrpNodeLimit
QOSGrpSubmitJobsLimit QOSGrpWallLimit QOSGrpUnknown QOSGrpUnknownMinutes QOSGrpUnknownRunMinutes
QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSGrpNodeMinutes QOSGrpNodeRunMinutes QOSGrpEnergy
QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes QOSGrpLicense
QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling
QOSGrpBillingMinutes QOSGrpBillingRunMinutes
QOSMaxCpuPerJobLimit QOSMaxCpuMinutesPerJobLimit QOSMaxNodePerJobLimit QOSMaxWallDurationPerJobLimit
QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit
QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxUnknownPerUser QOSMaxUnknownMinutesPerJob QOSMaxCpuPerNode
QOSMaxMemoryPerJob QOSMaxMemoryPerNode QOSMaxMemoryPerUser QOSMaxMemoryMinutesPerJob QOSMaxNodeMinutesPerJob
QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxEnergyMinutesPerJob QOSMaxGRESPerJob
QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxGRESMinutesPerJob QOSMaxLicensePerJob QOSMaxLicensePerUser
QOSMaxLicenseMinutesPerJob QOSMaxBBPerJob QOSMaxBBPerNode QOSMaxBBPerUser QOSMaxBillingPerJob
QOSMaxBillingPerNode QOSMaxBillingPerUser QOSMaxBillingMinutesPerJob
QOSMinCpuNotSatisfied QOSMinUnknown QOSMinMemory QOSMinNode QOSMinEnergy QOSMinGRES QOSMinLicense QOSMinBB
QOSMinBilling
MaxBBPerAccount MaxCpuPerAccount MaxEnergyPerAccount MaxGRESPerAccount MaxNodePerAccount MaxLicensePerAccount
MaxMemoryPerAccount MaxUnknownPerAccount MaxJobsPerAccount MaxSubmitJobsPerAccount MaxBillingPerAccount
MaxBBRunMinsPerAccount MaxBillingRunMinsPerAccount MaxCpuRunMinsPerAccount MaxEnergyRunMinsPerAccount
MaxGRESRunMinsPerAccount MaxNodeRunMinsPerAccount MaxLicenseRunMinsPerAccount MaxMemoryRunMinsPerAccount
MaxUnknownRunMinsPerAccount MaxBBRunMinsPerUser MaxBillingRunMinsPerUser MaxCpuRunMinsPerUser
MaxEnergyRunMinsPerUser MaxGRESRunMinsPerUser MaxNodeRunMinsPerUser MaxLicenseRunMinsPerUser
MaxMemoryRunMinsPerUser MaxUnknownRunMinsPerUser
"""
#: Every reason of Slurm 26.05 that names a limit; 25.11 has the same.
LIMIT_TOKENS = tuple(_NAMES.split())

#: What a limit counts, by Slurm's spelling.
RESOURCES = {
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "energy": "energy",
    "gres": "generic resources (GRES)",
    "license": "licences",
    "bb": "burst buffers",
    "billing": "billing units",
    "unknown": "a resource that slurmctld does not name",
    "jobs": "running jobs",
    "submitjob": "pending and running jobs",
    "submitjobs": "pending and running jobs",
    "wall": "wall-clock time",
    "wallduration": "time limit",
}

_NAME = re.compile(
    r"(?P<owner>Assoc|QOS)?(?P<kind>Grp|Max|Min)(?P<resource>[A-Za-z]+?)"
    r"(?P<measure>RunMinutes|RunMins|Minutes)?(?:Per(?P<scope>Job|Node|User|Account))?(?:Limit|NotSatisfied)?\Z"
)


class Measure(Enum):
    """How a limit counts its resource."""

    AMOUNT = "at the same time"
    MINUTES = "in minutes of use"
    RUN_MINUTES = "in minutes that running jobs may still use"


class Scope(Enum):
    """Whose use counts against a limit."""

    GROUP = "all jobs together"
    JOB = "one job"
    NODE = "one node of a job"
    USER = "one user"
    ACCOUNT = "one account"


_MEASURES = {
    None: Measure.AMOUNT,
    "Minutes": Measure.MINUTES,
    "RunMinutes": Measure.RUN_MINUTES,
    "RunMins": Measure.RUN_MINUTES,
}
_SCOPES = {"Job": Scope.JOB, "Node": Scope.NODE, "User": Scope.USER, "Account": Scope.ACCOUNT}


@dataclass(frozen=True, slots=True)
class Limit:
    """What the name of a limit says."""

    of_qos: bool
    resource: str
    scope: Scope
    measure: Measure = Measure.AMOUNT
    minimum: bool = False

    @property
    def owner(self) -> str:
        """The object that has the limit."""
        return "QOS" if self.of_qos else "association (account or user)"

    @property
    def depends_on_other_jobs(self) -> bool:
        """Whether the end of other jobs can satisfy the limit. If not, the job itself requests too much."""
        return not self.minimum and self.scope not in (Scope.JOB, Scope.NODE)


def parse_limit(token: str) -> Limit | None:
    """The limit that a reason names; None if the reason names no limit."""
    match = _NAME.fullmatch(token)
    resource = RESOURCES.get(match["resource"].lower()) if match else None
    if match is None or resource is None:
        return None
    is_group = match["kind"] == "Grp"
    # `AssocMaxJobsLimit` and `AssocMaxSubmitJobLimit` count the jobs of the association, which are those of one user.
    default = Scope.JOB if match["resource"].startswith("Wall") else Scope.USER
    scope = Scope.GROUP if is_group else _SCOPES.get(match["scope"], default)
    return Limit(
        of_qos=match["owner"] != "Assoc",
        resource=resource,
        scope=Scope.JOB if match["kind"] == "Min" else scope,
        measure=Measure.MINUTES if token.endswith("GrpWallLimit") else _MEASURES[match["measure"]],
        minimum=match["kind"] == "Min",
    )
