# SPDX-License-Identifier: Apache-2.0
"""The fields of slurmctld's objects that this library reads, as frozen structs that are decoded from bytes.

The decoder skips every field of Slurm's JSON that is not named here. Every field but the identity has a default,
because older data parsers leave some out. A contract test compares each name with the OpenAPI document of the
installed slurmrestd.
"""

from slinky.slurm.model.states import JobState, NodeState
from slinky.slurm.model.values import UNSET, ExitCode, Number, Value

Words = tuple[str, ...]


class StepId(Value, frozen=True, gc=False):
    """Slurm's identity of a job or step; unlike the id, the SLUID is never reused (v0.0.44 and newer)."""

    sluid: str = ""


class Job(Value, frozen=True, gc=False):
    """A job as slurmctld knows it."""

    job_id: int
    step_id: StepId = StepId()
    name: str = ""
    user_name: str = ""
    user_id: int = 0
    group_name: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    cluster: str = ""
    job_state: Words = ()
    state_reason: str = ""
    state_description: str = ""
    flags: Words = ()
    nodes: str = ""
    node_count: Number = UNSET
    scheduled_nodes: str = ""
    required_nodes: str = ""
    excluded_nodes: str = ""
    failed_node: str = ""
    batch_host: str = ""
    features: str = ""
    cpus: Number = UNSET
    tasks: Number = UNSET
    max_nodes: Number = UNSET
    minimum_cpus_per_node: Number = UNSET
    cpus_per_task: Number = UNSET
    tasks_per_node: Number = UNSET
    memory_per_node: Number = UNSET
    memory_per_cpu: Number = UNSET
    segment_size: int = 0
    gres_detail: Words = ()
    tres_req_str: str = ""
    tres_alloc_str: str = ""
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_task: str = ""
    shared: Words = ()
    licenses: str = ""
    resv_name: str = ""
    dependency: str = ""
    priority: Number = UNSET
    hold: bool = False
    submit_time: Number = UNSET
    eligible_time: Number = UNSET
    start_time: Number = UNSET
    end_time: Number = UNSET
    preempt_time: Number = UNSET
    suspend_time: Number = UNSET
    time_limit: Number = UNSET
    last_sched_evaluation: Number = UNSET
    exit_code: ExitCode = ExitCode()
    derived_exit_code: ExitCode = ExitCode()
    restart_cnt: int = 0
    requeue: bool = False
    comment: str = ""
    admin_comment: str = ""
    system_comment: str = ""
    extra: str = ""
    mcs_label: str = ""
    wckey: str = ""
    array_job_id: Number = UNSET
    array_task_id: Number = UNSET
    array_task_string: str = ""
    array_max_tasks: Number = UNSET
    het_job_id: Number = UNSET
    het_job_offset: Number = UNSET
    het_job_id_set: str = ""
    current_working_directory: str = ""
    standard_output: str = ""
    standard_error: str = ""

    @property
    def state(self) -> JobState:
        """Base state and flags."""
        return JobState.of(self.job_state)

    @property
    def sluid(self) -> str:
        """The identity that remains valid after a crash of slurmctld; empty with data parsers before v0.0.44."""
        return self.step_id.sluid


class JobStatus(Value, frozen=True, gc=False, rename={"words": "state"}):
    """An entry of `jobs/state/`, the cheapest request about jobs.

    The OpenAPI document describes another structure for this endpoint; this struct follows the server.
    """

    job_id: str
    words: Words = ()

    @property
    def state(self) -> JobState:
        """Base state and flags."""
        return JobState.of(self.words)


class Host(Value, frozen=True, gc=False, rename={"words": "state"}):
    """A Slurm node as slurmctld knows it.

    If a node is read singly, `alloc_*`, `tres_used` and the base state are as old as the last full list that was read.
    """

    name: str
    hostname: str = ""
    address: str = ""
    port: int = 0
    words: Words = ()
    reason: str = ""
    reason_set_by_user: str = ""
    reason_changed_at: Number = UNSET
    comment: str = ""
    extra: str = ""
    features: Words = ()
    active_features: Words = ()
    partitions: Words = ()
    reservation: str = ""
    topology: str = ""
    gres: str = ""
    gres_used: str = ""
    gres_drained: str = ""
    cpus: int = 0
    effective_cpus: int = 0
    boards: int = 0
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    real_memory: int = 0
    specialized_memory: int = 0
    free_mem: Number = UNSET
    cpu_load: int | None = None
    alloc_cpus: int = 0
    alloc_memory: int = 0
    tres: str = ""
    tres_used: str = ""
    weight: int = 0
    version: str = ""
    mcs_label: str = ""
    instance_id: str = ""
    boot_time: Number = UNSET
    slurmd_start_time: Number = UNSET
    last_busy: Number = UNSET
    resume_after: Number = UNSET

    @property
    def state(self) -> NodeState:
        """Base state and flags."""
        return NodeState.of(self.words)


class Reservation(Value, frozen=True, gc=False):
    """A reservation."""

    name: str
    node_list: str = ""
    node_count: int = 0
    core_count: int = 0
    partition: str = ""
    flags: Words = ()
    users: str = ""
    accounts: str = ""
    groups: str = ""
    features: str = ""
    licenses: str = ""
    tres: str = ""
    start_time: Number = UNSET
    end_time: Number = UNSET

    def active(self, now: float) -> bool:
        """Whether the reservation is active at this time."""
        return self.start_time.whole <= now < (self.end_time.value or 0)


class License(Value, frozen=True, gc=False, rename="pascal"):
    """A pool of licenses."""

    license_name: str
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0
    remote: bool = False
    last_consumed: int = 0
    last_deficit: int = 0
    last_update: int = 0


class Gres(Value, frozen=True, gc=False):
    """Devices of one type that a job has on one node."""

    name: str = ""
    type: str = ""
    count: int = 0
    index: str | None = None  # null for a type of which the job has no device


class NodeResources(Value, frozen=True, gc=False):
    """What a running job has on one node: cores as a hexadecimal bitmap, devices by index."""

    node: str
    sockets_per_node: int = 0
    cores_per_socket: int = 0
    mem_alloc: int = 0
    core_bitmap: str = ""
    channel: Number = UNSET
    gres: tuple[Gres, ...] = ()


class FairShare(Value, frozen=True, gc=False):
    """The factor that is part of a job's priority."""

    factor: Number = UNSET
    level: Number = UNSET


class Share(Value, frozen=True, gc=False):
    """The fair share of an account or user."""

    id: int = 0
    cluster: str = ""
    name: str = ""
    parent: str = ""
    partition: str = ""
    shares: Number = UNSET
    shares_normalized: Number = UNSET
    usage: int = 0
    usage_normalized: Number = UNSET
    effective_usage: Number = UNSET
    fairshare: FairShare = FairShare()
    type: Words = ()
