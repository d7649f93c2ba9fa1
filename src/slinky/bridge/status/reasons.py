# SPDX-License-Identifier: Apache-2.0
"""What Slurm's words mean and what to do about them: one table for waiting, one for ends, printed as documentation.

A token that is not in the table is passed on as Slurm said it; limits of associations and QOS, of which there are
dozens, are told by their prefix.
"""

from dataclasses import dataclass

from slinky.bridge import names
from slinky.slurm import Job


@dataclass(frozen=True)
class Reason:
    """Why a job waits: a sentence, and the next step for a person, if there is one."""

    sentence: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.step}".strip()


WAITING: dict[str, Reason] = {
    "None": Reason("Slurm has not looked at the job yet."),
    "Resources": Reason("It is the next of its kind; its nodes are still in use."),
    "Priority": Reason("Jobs of higher priority wait before it."),
    "Dependency": Reason("It waits for another job.", "See the option dependency."),
    "DependencyNeverSatisfied": Reason(
        "It waits for a job that will not end as demanded.", "Delete the pod, or change the option dependency."
    ),
    "BeginTime": Reason("Its begin time has not come."),
    "JobHeldUser": Reason("It is held.", "Release it with `scontrol release`."),
    "JobHeldAdmin": Reason("An administrator holds it.", "Ask them; `scontrol release` is theirs to give."),
    "Licenses": Reason("Its licences are all in use."),
    "ReqNodeNotAvail": Reason("Nodes it could use are down, drained or reserved.", "See `sinfo -R`."),
    "Reservation": Reason("It waits for its reservation to begin."),
    "ReservationDeleted": Reason("Its reservation is gone.", "Change the option reservation."),
    "InvalidAccount": Reason("Its account is not valid.", "Change the option account."),
    "InvalidQOS": Reason("Its QOS is not valid.", "Change the option qos."),
    "AccountNotAllowed": Reason("Its account may not use this partition.", "Change the option account or partition."),
    "QOSNotAllowed": Reason("Its QOS may not be used here.", "Change the option qos or partition."),
    "PartitionDown": Reason("Its partition is down.", "Ask an administrator."),
    "PartitionInactive": Reason("Its partition is inactive.", "Ask an administrator."),
    "PartitionConfig": Reason("It asks for more than the partition has.", "Ask for less, or for another partition."),
    "PartitionNodeLimit": Reason("It asks for more nodes than the partition gives.", "Ask for fewer pods."),
    "PartitionTimeLimit": Reason("It asks for more time than the partition gives.", "Lower the option timelimit."),
    "BadConstraints": Reason("No node has what it asks for.", "Check the option constraints and the pod's requests."),
    "NodeDown": Reason("A node it needs is down.", "See `sinfo -R`."),
    "BlockMaxNodeLimit": Reason("It does not fit the topology's blocks.", "See the option segment."),
    "BurstBufferResources": Reason("It waits for burst buffers."),
    "FrontEndDown": Reason("Slurm's front end is down.", "Ask an administrator."),
    "Cleaning": Reason("Its last run is being cleaned up."),
    "MaxPoweredUpNodes": Reason("No more nodes may be powered up now."),
    "DeadLine": Reason("It could not end before its deadline.", "Change the option deadline."),
}

PREFIXES: tuple[tuple[str, Reason], ...] = (
    ("QOSGrp", Reason("Everybody in its QOS together is at a limit.")),
    ("QOS", Reason("Its QOS is at a limit.", "Wait for other jobs, or ask for less.")),
    ("AssocGrp", Reason("Its account is at a limit.")),
    ("Assoc", Reason("Its user and account are at a limit.", "Wait for other jobs, or ask for less.")),
    ("MaxTRES", Reason("It asks for more than its account or QOS may have.", "Ask for less.")),
    ("Nodes_required_for_job_are_DOWN", Reason("Nodes it could use are down, drained or reserved.", "See `sinfo -R`.")),
)

#: The field of a job that names what blocks it, by the beginning of the reason.
CAUSES = {
    "Dependency": "dependency",
    "Licenses": "licenses",
    "Reservation": "resv_name",
    "InvalidAccount": "account",
    "AccountNotAllowed": "account",
    "Assoc": "account",
    "InvalidQOS": "qos",
    "QOS": "qos",
    "Partition": "partition",
    "BadConstraints": "features",
}

#: Slurm's numbers for a submission that waiting does not mend.
REFUSED: dict[int, Reason] = {
    2000: Reason("There is no such partition.", "Change the option partition."),
    2014: Reason(
        "No node can ever give what the pods ask for.", "Ask for less; check labels, taints, host ports and GRES."
    ),
    2018: Reason("A node it names is not known to Slurm."),
    2029: Reason("No node has such a feature.", "Change the option constraints."),
    2045: Reason("There is no such account, or the user is not in it.", "Change the option account or user-id."),
    2048: Reason("There is no such licence.", "Change the option licenses."),
    2053: Reason("There is no such reservation.", "Change the option reservation."),
    2066: Reason("There is no such QOS, or it may not be used.", "Change the option qos."),
    2081: Reason("External jobs cannot be arrays."),
    2115: Reason("There is no such resource.", "Change the option gres or the pods' device requests."),
}


@dataclass(frozen=True)
class End:
    """What an end of a job means to its pods: a reason for events, a sentence, and whether it was a decision.

    A decision sticks: a job that somebody cancelled is not submitted again behind their back. A final end would come
    again if the same pod were run again.
    """

    reason: str
    sentence: str
    decision: bool = False
    final: bool = False


ENDS: dict[str, End] = {
    "CANCELLED": End("SlurmJobCancelled", "was cancelled in Slurm", decision=True, final=True),
    "COMPLETED": End("SlurmJobEnded", "was ended in Slurm", decision=True, final=True),
    "DEADLINE": End("SlurmJobDeadline", "passed its deadline", decision=True, final=True),
    "TIMEOUT": End("SlurmJobTimeout", "reached its time limit", final=True),
    "PREEMPTED": End("SlurmJobPreempted", "was preempted by another job"),
    "NODE_FAIL": End("SlurmNodeFailed", "lost a node"),
    "BOOT_FAIL": End("SlurmNodeFailed", "did not get its nodes up"),
    "FAILED": End("SlurmJobFailed", "failed in Slurm"),
    "OUT_OF_MEMORY": End("SlurmJobOutOfMemory", "ran out of memory in Slurm"),
}
FINAL = frozenset(end.reason for end in ENDS.values() if end.final)
LOST = End("SlurmJobLost", "is not known to Slurm any more: neither slurmctld nor accounting has it")


#: What the bridge itself says in the condition, where Slurm has no word for it.
OURS: dict[str, str] = {
    "Allocated": "The job runs and the pod has its node.",
    "Pending": "The job waits and Slurm has not said why yet.",
    "GroupMissing": "The object that groups or made the pod is not in sight yet.",
    "GangIncomplete": "Pods of the gang are missing; all start together or none.",
    "GangReshaped": "The gang has other roles than its waiting job; it is submitted anew.",
    "JobOutgrown": "What the pods ask for now cannot be written to the waiting job; it is submitted anew.",
    "InvalidOption": "An option cannot be used; the message says which and why.",
    "NotSupported": "The pod or its group demands what Slurm cannot be asked for.",
    "ClaimPending": "A claim or template that the pod names is missing, or in use by somebody else.",
    "VolumePending": "A volume that the pod needs does not exist, or is not ready yet.",
    "SlurmRefused": "Slurm refused the job; it is tried again every minute and when something changes.",
    "SlurmUnreachable": "Slurm does not answer; the pod is submitted as soon as it does.",
    "SlurmUnknown": "Slurm does not tell what became of a job of the gang; nothing is done until it does.",
    "Suspended": "Somebody suspended the job: containers go on, unbound pods wait for `scontrol resume`.",
    "NodeClearing": "The job has its node, where the last pod is still being stopped.",
    "NodeNotReady": "The job has its node, which is cordoned or does not answer; if that lasts, the job is given back.",
    "NodeUnsuitable": "The node that Slurm gave does not suit; the job is given back and submitted again.",
    "DevicesHeld": "The job has its nodes, but another claim still holds a device.",
    "EvictionBraked": "The job is lost and its node given away, but too many pods would leave at once.",
    "LostJobNotReplaced": "The job is lost and there is no other on its nodes yet; the pod stays.",
}


def waiting(token: str) -> Reason:
    """What a reason for waiting means."""
    first = token.split(",", 1)[0].strip()
    if first in WAITING:
        return WAITING[first]
    known = next((reason for prefix, reason in PREFIXES if first.startswith(prefix)), None)
    return known or Reason(f"Slurm says {first}." if first else WAITING["None"].sentence)


def blocker(token: str, job: Job) -> str:
    """What stands in a job's way, by name, as far as the job tells it."""
    field = next((field for prefix, field in CAUSES.items() if token.startswith(prefix)), "")
    named = str(getattr(job, field)) if field else ""
    return "; ".join(filter(None, (named, job.state_description)))


def refused(number: int, text: str) -> Reason:
    """What a refused submission means."""
    known = REFUSED.get(number)
    return known or Reason(f"Slurm refused the job: {text} ({number}).")


def end(base: str, *, lost: bool) -> End:
    """What an end means."""
    if lost:
        return LOST
    return ENDS.get(base, End("SlurmJobEnded", f"ended in Slurm as {base or 'unknown'}"))


def document() -> str:
    """The tables as Markdown."""
    rows = ["| Slurm says | it means | next step |", "| --- | --- | --- |"]
    rows += [f"| `{token}` | {reason.sentence} | {reason.step} |" for token, reason in sorted(WAITING.items())]
    rows += [f"| `{prefix}...` | {reason.sentence} | {reason.step} |" for prefix, reason in PREFIXES]
    rows += ["", "| the bridge says | it means |", "| --- | --- |"]
    rows += [f"| `{token}` | {sentence} |" for token, sentence in sorted(OURS.items())]
    rows += ["", "| error | it means | next step |", "| --- | --- | --- |"]
    rows += [f"| {number} | {reason.sentence} | {reason.step} |" for number, reason in sorted(REFUSED.items())]
    head = f"| the job | event on the pod | submitted again if it had no node yet | `{names.ENDED}` if it had |"
    rows += ["", head, "| --- | --- | --- | --- |"]
    for state, e in (*ENDS.items(), ("lost", LOST)):
        rows.append(f"| {state} | `{e.reason}` | {'no' if e.decision else 'yes'} | {'yes' if e.final else 'no'} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(document(), end="")
