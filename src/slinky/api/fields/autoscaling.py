# SPDX-License-Identifier: Apache-2.0
"""`spec.autoscaling` and `status.autoscaling` of a NodeSet: workers that come with pending jobs and go without them."""

from typing import Annotated, Literal

from msgspec import Meta

from slinky.api.fields.amounts import Duration
from slinky.kube.schema import described, list_atomic, list_map, rule
from slinky.kube.types import View

Mode = Literal["Active", "External", "DryRun"]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
#: A time of day, 00:00 to 24:00.
TimeOfDay = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$")]
Limit = Annotated[int, Meta(ge=0, le=65_533)]
Step = Annotated[int, Meta(ge=0, le=65_533)]


class ScaleOut(View, frozen=True):
    """How a NodeSet grows."""

    cooldown: Annotated[Duration, described("Minimum time between two increases.")] = "0s"
    max_step: Annotated[Step, described("Maximum number of workers that one increase adds; 0: no limit.")] = 0
    ready_within: Annotated[
        Duration,
        described(
            "How long a new worker may take to register in Slurm. Workers that take longer are removed, the condition"
            " AutoscalingActive reports the cause, and the next increase waits longer."
        ),
    ] = "10m"


class ScaleIn(View, frozen=True):
    """How a NodeSet shrinks; only idle workers are removed."""

    idle_for: Annotated[Duration, described("How long a worker must be idle before it is removed.")] = "5m"
    cooldown: Annotated[Duration, described("Minimum time between a change of the size and a decrease.")] = "0s"
    max_step: Annotated[Step, described("Maximum number of workers that one decrease removes; 0: no limit.")] = 0


class ScalingWindow(View, frozen=True):
    """Other limits during a part of the week. The first window that contains the current time counts."""

    __rules__ = (
        rule(
            "!(has(self.minReplicas) && has(self.maxReplicas)) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not exceed maxReplicas",
        ),
    )

    days: Annotated[
        tuple[Day, ...], list_atomic(), described("Days on which the window begins; empty: every day.")
    ] = ()
    start: Annotated[TimeOfDay, described("Time of day at which the window begins.")] = "00:00"
    end: Annotated[
        TimeOfDay, described("Time of day at which the window ends; on the next day if it is not after the start.")
    ] = "24:00"
    min_replicas: Annotated[Limit | None, described("Minimum number of workers during the window.")] = None
    max_replicas: Annotated[Limit | None, described("Maximum number of workers during the window.")] = None
    warm_pool: Annotated[Limit | None, described("Number of idle workers to keep during the window.")] = None


class AccountLimit(View, frozen=True):
    """How many workers the jobs of one account may bring."""

    account: Annotated[str, Meta(min_length=1, max_length=64), described("Name of the account in Slurm.")]
    max_workers: Annotated[
        Limit, described("The NodeSet does not grow for jobs of the account that already has so many of its workers.")
    ]


class Autoscaling(View, frozen=True):
    """Lets the operator set replicas: as many workers as the running and the pending jobs need."""

    __rules__ = (
        rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas", "minReplicas must not exceed maxReplicas"
        ),
    )

    max_replicas: Annotated[Limit, described("Maximum number of workers.")]
    mode: Annotated[
        Mode,
        described(
            "Active: the operator sets replicas. External: it computes the number, and a HorizontalPodAutoscaler or"
            " KEDA sets replicas by it. DryRun: it only reports what it would do, in the status."
        ),
    ] = "Active"
    min_replicas: Annotated[Limit, described("Minimum number of workers.")] = 0
    warm_pool: Annotated[
        Limit, described("Number of workers without a job to keep in addition, so that the next job starts at once.")
    ] = 0
    scale_out: Annotated[ScaleOut, described("How the NodeSet grows.")] = ScaleOut()
    scale_in: Annotated[ScaleIn, described("How the NodeSet shrinks.")] = ScaleIn()
    block_size: Annotated[
        int,
        Meta(ge=1, le=65_533),
        described("Add and remove workers in multiples of this number, such as the nodes of a topology block."),
    ] = 1
    weight: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1),
        described("Of several NodeSets that could run a job, the one with the lowest weight grows first."),
    ] = 1
    expected_wait: Annotated[
        Duration,
        described("Do not grow for a job that Slurm expects to start within this time on existing workers."),
    ] = "0s"
    begin_ahead: Annotated[
        Duration, described("How long before its begin time (sbatch --begin) a job counts as demand.")
    ] = "0s"
    reservation_ahead: Annotated[
        Duration,
        described("How long before a reservation begins its workers are created; until it ends, they are not removed."),
    ] = "10m"
    existing_nodes_only: Annotated[
        bool,
        described("Without a node autoscaler: do not grow beyond the Kubernetes nodes on which workers may run now."),
    ] = False
    account_limits: Annotated[
        tuple[AccountLimit, ...],
        Meta(max_length=64),
        list_map("account"),
        described("How many workers the jobs of an account may bring; other accounts have no limit here."),
    ] = ()
    worker_hours_per_day: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1),
        described(
            "Budget: the NodeSet stops growing when its workers have existed for this many hours today; 0: none."
        ),
    ] = 0
    windows: Annotated[
        tuple[ScalingWindow, ...],
        Meta(max_length=32),
        list_atomic(),
        described("Other limits at certain times; the first window that contains the current time counts."),
    ] = ()
    time_zone: Annotated[
        str,
        Meta(max_length=64, pattern=r"^[A-Za-z0-9_+\-/]*$"),
        described("Time zone of the windows and of the budget's day, such as Europe/Zurich."),
    ] = "UTC"


class ScalingDecisionRecord(View, frozen=True):
    """A change of replicas that the autoscaler has made."""

    time: Annotated[str, described("Time of the change.")] = ""
    before: Annotated[int, described("Number of workers before the change.")] = 0
    after: Annotated[int, described("Number of workers after the change.")] = 0
    reason: Annotated[str, described("Reason of the change, in one word.")] = ""
    message: Annotated[str, described("Reason of the change, in a sentence.")] = ""


class LearnedWorker(View, frozen=True):
    """What a worker of the NodeSet offered when one was last registered; a NodeSet without workers is judged by it."""

    cpus: Annotated[int, described("Number of CPUs.")] = 0
    memory: Annotated[int, described("Memory in megabytes.")] = 0
    gres: Annotated[str, described("Generic resources, as Slurm writes them.")] = ""
    features: Annotated[tuple[str, ...], list_atomic(), described("Features of the Slurm node.")] = ()
    partitions: Annotated[tuple[str, ...], list_atomic(), described("Partitions of the Slurm node.")] = ()


class PendingPartition(View, frozen=True):
    """The pending jobs of a partition."""

    name: Annotated[str, described("Name of the partition.")] = ""
    jobs: Annotated[int, described("Number of pending jobs; each task of an array counts.")] = 0
    largest_job: Annotated[int, described("Nodes that the largest pending job requests, without held jobs.")] = 0


class AutoscalingStatus(View, frozen=True):
    """What the autoscaler has done, and what it would do next."""

    replicas: Annotated[int | None, described("Number of workers that the autoscaler has last set.")] = None
    next_replicas: Annotated[int, described("Number of workers that the latest decision asks for.")] = 0
    reason: Annotated[str, described("Reason of the latest decision, in one word.")] = ""
    message: Annotated[str, described("Reason of the latest decision, in a sentence.")] = ""
    impossible_jobs: Annotated[
        tuple[str, ...], list_atomic(), described("Pending jobs that no worker can ever run, with the reason.")
    ] = ()
    last_scale_out_time: Annotated[str, described("When the autoscaler has last added workers.")] = ""
    last_scale_in_time: Annotated[str, described("When the autoscaler has last removed workers.")] = ""
    failures: Annotated[int, described("Number of increases in a row whose workers did not register in time.")] = 0
    retry_time: Annotated[
        str, described("Time from which the NodeSet may grow again, after new workers did not register in time.")
    ] = ""
    retry_request: Annotated[str, described("Value of the annotation retry-growth that was last seen.")] = ""
    used_day: Annotated[str, described("Day to which usedSeconds refers.")] = ""
    used_seconds: Annotated[
        int, described("Seconds that workers have existed on that day until usedSince, all workers added up.")
    ] = 0
    used_since: Annotated[str, described("Time up to which usedSeconds is complete.")] = ""
    unmet_since: Annotated[
        str, described("Since when jobs need more workers than replicas, in mode External; empty if they do not.")
    ] = ""
    worker: Annotated[LearnedWorker, described("What a worker offers.")] = LearnedWorker()
    partitions: Annotated[
        tuple[PendingPartition, ...],
        list_atomic(),
        described("Pending jobs of the partitions that workers join, in mode External."),
    ] = ()
    decisions: Annotated[
        tuple[ScalingDecisionRecord, ...], list_atomic(), described("The last twenty changes, the latest first.")
    ] = ()
