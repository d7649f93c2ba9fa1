# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests to slurmctld: structs of which an unset field is not sent.

Slurm accepts a misspelled field with a warning, so bodies are structs and never dicts. The names are Slurm's own
(`job_desc_msg` and others); a contract test compares them with the OpenAPI document of the installed slurmrestd.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from slinky.slurm.hostlist import fold
from slinky.slurm.model.values import Number, Value

_NODE_VALUE = re.compile(r"[^\s\x00-\x1f\x7f]+\Z")


class JobRequest(Value, frozen=True, gc=False):
    """A job to submit, allocate or update. Times are in minutes, memory is in MiB."""

    name: str | None = None
    script: str | None = None
    argv: Sequence[str] | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    user_id: str | None = None
    group_id: str | None = None
    job_id: int | None = None
    flags: Sequence[str] | None = None
    immediate: bool | None = None
    hold: bool | None = None
    priority: Number | None = None
    nice: int | None = None
    begin_time: Number | None = None
    deadline: int | None = None
    end_time: int | None = None
    time_limit: Number | None = None
    time_minimum: Number | None = None
    dependency: str | None = None
    array: str | None = None
    nodes: str | None = None
    minimum_nodes: int | None = None
    maximum_nodes: int | None = None
    required_nodes: Sequence[str] | None = None
    excluded_nodes: Sequence[str] | None = None
    constraints: str | None = None
    prefer: str | None = None
    contiguous: bool | None = None
    required_switches: Number | None = None
    wait_for_switch: int | None = None
    segment_size: Number | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    tasks_per_socket: int | None = None
    tasks_per_core: int | None = None
    ntasks_per_tres: int | None = None
    cpus_per_task: int | None = None
    minimum_cpus: int | None = None
    maximum_cpus: int | None = None
    minimum_cpus_per_node: int | None = None
    sockets_per_node: int | None = None
    threads_per_core: int | None = None
    core_specification: int | None = None
    memory_per_node: Number | None = None
    memory_per_cpu: Number | None = None
    memory_per_tres: str | None = None
    temporary_disk_per_node: int | None = None
    tres_per_node: str | None = None
    tres_per_job: str | None = None
    tres_per_task: str | None = None
    tres_per_socket: str | None = None
    tres_bind: str | None = None
    tres_freq: str | None = None
    cpus_per_tres: str | None = None
    licenses: str | None = None
    shared: Sequence[str] | None = None
    overcommit: bool | None = None
    distribution: str | None = None
    cpu_binding: str | None = None
    cpu_frequency: str | None = None
    kill_on_node_fail: bool | None = None
    requeue: bool | None = None
    reboot: bool | None = None
    kill_warning_signal: str | None = None
    kill_warning_delay: Number | None = None
    kill_warning_flags: Sequence[str] | None = None
    mail_type: Sequence[str] | None = None
    mail_user: str | None = None
    mcs_label: str | None = None
    wckey: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    extra: str | None = None
    network: str | None = None
    burst_buffer: str | None = None
    container: str | None = None
    container_id: str | None = None
    environment: Sequence[str] | None = None
    current_working_directory: str | None = None
    standard_input: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None
    open_mode: Sequence[str] | None = None
    site_factor: int | None = None
    selinux_context: str | None = None
    profile: Sequence[str] | None = None
    wait_all_nodes: bool | None = None
    hetjob_group: int | None = None


class JobSelection(Value, frozen=True, gc=False):
    """The jobs of a bulk cancel: these jobs, or every job that matches every filter."""

    jobs: Sequence[str] | None = None
    account: str | None = None
    job_name: str | None = None
    job_state: Sequence[str] | None = None
    nodes: Sequence[str] | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    wckey: str | None = None
    signal: str | None = None
    flags: Sequence[str] | None = None


class NodeUpdate(Value, frozen=True, gc=False):
    """A change of one Slurm node, or with `SlurmClient.update_nodes` of many."""

    name: Sequence[str] | None = None
    state: Sequence[str] | None = None
    reason: str | None = None
    resume_after: Number | None = None
    comment: str | None = None
    extra: str | None = None
    features: Sequence[str] | None = None
    features_act: Sequence[str] | None = None
    gres: str | None = None
    weight: Number | None = None
    topology_str: str | None = None
    address: Sequence[str] | None = None
    hostname: Sequence[str] | None = None
    cpu_bind: int | None = None


class ReservationRequest(Value, frozen=True, gc=False):
    """A reservation to create, or to change if one of this name exists. The duration is in minutes."""

    name: str | None = None
    start_time: Number | None = None
    end_time: Number | None = None
    duration: Number | None = None
    node_list: Sequence[str] | None = None
    node_count: Number | None = None
    core_count: Number | None = None
    partition: str | None = None
    features: str | None = None
    flags: Sequence[str] | None = None
    users: Sequence[str] | None = None
    accounts: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    licenses: Sequence[str] | None = None
    max_start_delay: Number | None = None
    comment: str | None = None


class SubmitBody(Value, frozen=True, gc=False):
    """One job, or the components of a heterogeneous job."""

    job: JobRequest | None = None
    jobs: Sequence[JobRequest] | None = None


class RequeueBody(Value, frozen=True, gc=False):
    """Jobs to requeue."""

    jobs: Sequence[str] = ()
    flags: Sequence[str] = ()


class NewNodeBody(Value, frozen=True, gc=False):
    """A node line as in slurm.conf."""

    node_conf: str


class ReservationsBody(Value, frozen=True, gc=False):
    """Several reservations in one request."""

    reservations: Sequence[ReservationRequest]


def fold_hosts(job: JobRequest) -> JobRequest:
    """The request with its excluded hosts as one hostlist.

    Slurm keeps the text as it was sent in the record of the job: a thousand names are 10 kB in every list of jobs.
    """
    names = job.excluded_nodes or ()
    return replace(job, excluded_nodes=(fold(names),)) if len(names) > 1 else job


def node_conf(name: str, **settings: str | int) -> str:
    """The slurm.conf line that creates a node.

    Raises `ValueError` for a value with white space or an equals sign, which would add a second setting, and for an
    empty value: Slurm would read the next setting as the value of an empty `Topology=`.
    """
    pairs = {"NodeName": name, **{key: str(value) for key, value in settings.items()}}
    for key, value in pairs.items():
        if not key.isalnum() or not _NODE_VALUE.match(value) or ("=" in value and key != "GresConf"):
            raise ValueError(f"{key}={value!r} is not valid in a node line")
    return " ".join(f"{key}={value}" for key, value in pairs.items())
