# SPDX-License-Identifier: Apache-2.0
"""Every pending reason of Slurm: what it means, the next step, and what makes the job start. Pure.

`explain` answers for each of the 216 reasons of Slurm 26.05, and passes a reason that it does not know on as Slurm
reports it. The texts of `state_description`, with which slurmctld refines some reasons, are in `DESCRIPTIONS`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from slinky.insight.limit_reasons import LIMIT_TOKENS, Limit, Measure, parse_limit


class Remedy(Enum):
    """What makes a pending job start."""

    WORKERS = "more workers, or waiting"
    WAITING = "waiting"
    USER = "a change by the user"
    ADMINISTRATOR = "an administrator"
    RUN_ENDED = "nothing: the reason tells how the last run ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PendingReason:
    """One reason. `blocking_field` is the field of a job's record that names what blocks the job."""

    sentence: str
    step: str
    remedy: Remedy
    blocking_field: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.step}".strip()


_WORKERS, _WAITING, _USER = Remedy.WORKERS, Remedy.WAITING, Remedy.USER
_ADMINISTRATOR, _RUN_ENDED = Remedy.ADMINISTRATOR, Remedy.RUN_ENDED
_SEE_SINFO = "See `sinfo -R`."
_ASK_ADMINISTRATOR = "Ask an administrator."
_LAST_RUN = "See the record of the last run with `sacct --duplicates`."

#: Reasons that name no limit.
REASONS: dict[str, PendingReason] = {
    "None": PendingReason("Slurm has not evaluated the job yet.", "", _WAITING),
    "Resources": PendingReason("Next in the queue; waiting for nodes to become free.", "", _WORKERS),
    "Priority": PendingReason("Jobs of higher priority are ahead of this job in the queue.", "", _WORKERS),
    "Dependency": PendingReason(
        "The job depends on another job.", "See the option dependency.", _WAITING, "dependency"
    ),
    "DependencyNeverSatisfied": PendingReason(
        "The job depends on a job that cannot end as required.",
        "Delete the job, or change the option dependency.",
        _USER,
        "dependency",
    ),
    "BeginTime": PendingReason("The begin time of the job is in the future.", "", _WAITING),
    "JobHeldUser": PendingReason("The job is held.", "Release it with `scontrol release`.", _USER),
    "JobHeldAdmin": PendingReason(
        "An administrator holds the job.", "Ask the administrator to release it.", _ADMINISTRATOR
    ),
    "JobHoldMaxRequeue": PendingReason(
        "The job is held because it was requeued too often.",
        "Find out why it fails, then release it with `scontrol release`.",
        _USER,
    ),
    "JobArrayTaskLimit": PendingReason(
        "As many tasks of the array run as the array allows at the same time.",
        "The task starts when another one ends; raise the limit with `scontrol update ArrayTaskThrottle`.",
        _WAITING,
    ),
    "Licenses": PendingReason("All licences that the job needs are in use.", "", _WAITING, "licenses"),
    "ReqNodeNotAvail": PendingReason(
        "Nodes that the job could use are down, drained or reserved.", _SEE_SINFO, _WORKERS
    ),
    "Reservation": PendingReason(
        "The reservation of the job has not started, or its nodes are in use.", "", _WAITING, "resv_name"
    ),
    "ReservationDeleted": PendingReason(
        "The reservation of the job was deleted.", "Change the option reservation.", _USER, "resv_name"
    ),
    "ReservationInvalid": PendingReason(
        "The job may not use its reservation.", "Change the option reservation.", _USER, "resv_name"
    ),
    "InvalidAccount": PendingReason(
        "The account of the job is not valid.", "Change the option account.", _USER, "account"
    ),
    "InvalidQOS": PendingReason("The QOS of the job is not valid.", "Change the option qos.", _USER, "qos"),
    "AccountNotAllowed": PendingReason(
        "The account of the job may not use this partition.",
        "Change the option account or partition.",
        _USER,
        "account",
    ),
    "QOSNotAllowed": PendingReason(
        "The QOS of the job may not be used in this partition.", "Change the option qos or partition.", _USER, "qos"
    ),
    "AccountingPolicy": PendingReason(
        "A rule of accounting prevents the start of the job.", _ASK_ADMINISTRATOR, _ADMINISTRATOR, "account"
    ),
    "PartitionDown": PendingReason("The partition is down.", _ASK_ADMINISTRATOR, _ADMINISTRATOR, "partition"),
    "PartitionInactive": PendingReason("The partition is inactive.", _ASK_ADMINISTRATOR, _ADMINISTRATOR, "partition"),
    "PartitionConfig": PendingReason(
        "The job requests more than the partition has.",
        "Request less, use another partition, or wait for more nodes.",
        _WORKERS,
        "partition",
    ),
    "PartitionNodeLimit": PendingReason(
        "The number of nodes is outside the limits of the partition, or too few of its nodes are up.",
        "Change the number of nodes, or use another partition.",
        _WORKERS,
        "partition",
    ),
    "PartitionTimeLimit": PendingReason(
        "The time limit of the job exceeds that of the partition.", "Lower the option timelimit.", _USER, "partition"
    ),
    "MaxMemPerLimit": PendingReason(
        "The job requests more memory per CPU or node than the partition allows.", "Request less memory.", _USER
    ),
    "BadConstraints": PendingReason(
        "No node has what the job requests.", "Check the option constraints and the requests.", _USER, "features"
    ),
    "Constraints": PendingReason(
        "No node has the features that the job requests now.", "Check the option constraints.", _USER, "features"
    ),
    "NodeDown": PendingReason("A node that the job needs is down.", _SEE_SINFO, _WORKERS),
    "Cleaning": PendingReason("Slurm is still cleaning up the previous run of the job.", "", _WAITING),
    "Prolog": PendingReason("The prolog of the job is still running.", "", _WAITING),
    "BurstBufferResources": PendingReason("The job waits for burst buffers.", "", _WAITING),
    "BurstBufferStageIn": PendingReason("The burst buffer of the job is being filled.", "", _WAITING),
    "BurstBufferOperation": PendingReason(
        "An operation on the burst buffer of the job failed or is under way.", _ASK_ADMINISTRATOR, _ADMINISTRATOR
    ),
    "FedJobLock": PendingReason("Another cluster of the federation is evaluating the job.", "", _WAITING),
    "MaxPoweredUpNodes": PendingReason("Slurm has reached its limit of powered-up nodes.", "", _WAITING),
    "MpiPortsBusy": PendingReason("The ports that the MPI steps of the job need are in use.", "", _WAITING),
    "NvidiaImexChannels": PendingReason("All NVIDIA IMEX channels are in use.", "", _WAITING),
    "SchedDefer": PendingReason(
        "Slurm does not start jobs when they are submitted (`SchedulerParameters=defer`); the next scheduling cycle "
        "evaluates the job.",
        "",
        _WAITING,
    ),
    "AssociationJobLimit": PendingReason(
        "The account or user has reached its number of jobs.", "The job starts when others end.", _WAITING, "account"
    ),
    "AssociationResourceLimit": PendingReason(
        "The account or user has reached a limit of resources.", "The job starts when others end.", _WAITING, "account"
    ),
    "AssociationTimeLimit": PendingReason(
        "The account or user has reached a limit of time.", "Lower the option timelimit.", _USER, "account"
    ),
    "QOSJobLimit": PendingReason(
        "The QOS has reached its number of jobs.", "The job starts when others end.", _WAITING, "qos"
    ),
    "QOSResourceLimit": PendingReason(
        "The QOS has reached a limit of resources.", "The job starts when others end.", _WAITING, "qos"
    ),
    "QOSTimeLimit": PendingReason("The QOS has reached a limit of time.", "Lower the option timelimit.", _USER, "qos"),
    "QOSUsageThreshold": PendingReason(
        "The fair share of the account or user is below the threshold of the QOS.",
        "The job starts when earlier use has decayed; another QOS may start it now.",
        _WAITING,
        "qos",
    ),
    # Slurm also keeps the reason of an end; a requeued job shows it until it is evaluated again.
    "SystemFailure": PendingReason("Slurm or a node failed during the last run.", _LAST_RUN, _RUN_ENDED),
    "JobLaunchFailure": PendingReason("The job could not be launched.", _LAST_RUN, _RUN_ENDED),
    "NonZeroExitCode": PendingReason("The last run ended with an exit code other than 0.", _LAST_RUN, _RUN_ENDED),
    "RaisedSignal": PendingReason("A signal ended the last run.", _LAST_RUN, _RUN_ENDED),
    "TimeLimit": PendingReason("The last run reached its time limit.", "Raise the option timelimit.", _RUN_ENDED),
    "InactiveLimit": PendingReason("The last run was inactive for too long.", _LAST_RUN, _RUN_ENDED),
    "OutOfMemory": PendingReason("The last run ran out of memory.", "Request more memory.", _RUN_ENDED),
    "DeadLine": PendingReason("The job cannot end before its deadline.", "Change the option deadline.", _USER),
}

#: Texts of `state_description` that refine a reason, by their beginning.
DESCRIPTIONS: dict[str, PendingReason] = {
    "No suitable topology unit found": PendingReason(
        "No block or switch of the topology has enough free nodes for the job.",
        "The job starts when a block or switch has them; a smaller segment fits earlier.",
        _WORKERS,
    ),
    "Insufficient resources in topology unit": PendingReason(
        "The block or switch of the topology that the job needs has too few free nodes.",
        "The job starts when nodes of the block or switch become free.",
        _WORKERS,
    ),
    "Required nodes do not fit topology": PendingReason(
        "The nodes that the job requires do not lie in one block or switch of the topology.",
        "Change the required nodes, or the options segment and switches.",
        _USER,
    ),
    "Nodes required for job are DOWN, DRAINED": PendingReason(
        "Nodes that the job requires are down, drained, or reserved for partitions of higher priority.",
        _SEE_SINFO,
        _WORKERS,
    ),
    "Reserved for maintenance": PendingReason(
        "Nodes that the job could use are reserved for maintenance before the job could end.",
        "A shorter time limit may fit before the maintenance; see `scontrol show reservation`.",
        _WAITING,
    ),
    "launch failed requeued held": PendingReason(
        "The last launch failed, so Slurm requeued the job and holds it.",
        "Find out why it failed, then release it with `scontrol release`.",
        _USER,
    ),
}

#: How Slurm words a limit that depends on other jobs, by what the limit counts.
_REACHED = {
    Measure.AMOUNT: "has reached its limit of {resource} for {scope}",
    Measure.MINUTES: "has used up its minutes of {resource} for {scope}",
    Measure.RUN_MINUTES: "has reached its limit of minutes that running jobs may still use {resource}, for {scope}",
}
_REACHED_STEP = {
    Measure.AMOUNT: "The job starts when other jobs that count against the limit end.",
    Measure.MINUTES: "The job starts when earlier use decays or is reset, or an administrator raises the limit.",
    Measure.RUN_MINUTES: "The job starts when other jobs end; a shorter time limit needs fewer minutes.",
}
_REACHED_REMEDY = {Measure.MINUTES: _ADMINISTRATOR}


def explain(token: str, description: str = "") -> PendingReason:
    """The meaning of a pending reason, refined by the text of `state_description` where that is known."""
    first, _, appended = token.partition(",")
    first = first.strip()
    reason = _reason_of(first)
    for text in (description.strip(), appended.strip()):
        refined = next((value for start, value in DESCRIPTIONS.items() if start in text), None)
        if refined is not None:
            return replace(refined, blocking_field=reason.blocking_field)
    return reason


def _reason_of(token: str) -> PendingReason:
    if not token:
        return REASONS["None"]
    if (reason := REASONS.get(token)) is not None:
        return reason
    limit = parse_limit(token)
    return _explain_limit(limit) if limit else PendingReason(f"Slurm reports {token}.", "", Remedy.UNKNOWN)


def _explain_limit(limit: Limit) -> PendingReason:
    field = "qos" if limit.of_qos else "account"
    if limit.minimum:
        return PendingReason(
            f"The job requests less than the minimum of {limit.resource} of its QOS.",
            "Request more, or use another QOS.",
            _USER,
            field,
        )
    if not limit.depends_on_other_jobs:
        unit = " (in minutes: amount times time limit)" if limit.measure is not Measure.AMOUNT else ""
        return PendingReason(
            f"The job requests more than its {limit.owner} allows for {limit.scope.value}: {limit.resource}{unit}.",
            "Request less; waiting does not help.",
            _USER,
            field,
        )
    reached = _REACHED[limit.measure].format(resource=limit.resource, scope=limit.scope.value)
    remedy = _REACHED_REMEDY.get(limit.measure, _WAITING)
    return PendingReason(f"The {limit.owner} {reached}.", _REACHED_STEP[limit.measure], remedy, field)


def all_reasons() -> Iterator[tuple[str, PendingReason]]:
    """Every reason with its explanation, ordered by token."""
    for token in sorted((*REASONS, *LIMIT_TOKENS)):
        yield token, _reason_of(token)


def render_table() -> str:
    """The table of reasons as Markdown."""
    header = "| reason | meaning | next step | what makes the job start |"
    rows = [f"| `{token}` | {row.sentence} | {row.step} | {row.remedy.value} |" for token, row in all_reasons()]
    return "\n".join([header, "| --- | --- | --- | --- |", *rows])
