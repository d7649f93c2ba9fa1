# SPDX-License-Identifier: Apache-2.0
"""Partitions, in requests and responses; see `views` for the conventions of these structs."""

from slinky.slurm.model.values import UNSET, Number, Value

Words = tuple[str, ...]


class PartitionNodes(Value, frozen=True, gc=False):
    """The nodes of a partition."""

    configured: str = ""
    total: int = 0
    allowed_allocation: str = ""


class Allowed(Value, frozen=True, gc=False):
    """Comma-separated names that may, or may not, use the partition."""

    allowed: str = ""
    deny: str = ""


class PartitionQos(Value, frozen=True, gc=False):
    """The QOS that a partition allows, and the QOS that is assigned to it."""

    allowed: str = ""
    deny: str = ""
    assigned: str = ""


class PartitionMode(Value, frozen=True, gc=False):
    """Whether a partition is up and how jobs share its nodes."""

    state: Words = ()
    oversubscribe: str = ""
    exclusive: str = ""


class PartitionTres(Value, frozen=True, gc=False):
    """The total resources of a partition's nodes."""

    configured: str = ""
    billing_weights: str = ""


class PartitionCpus(Value, frozen=True, gc=False):
    """CPUs of a partition."""

    total: int = 0


class PartitionDefaults(Value, frozen=True, gc=False):
    """Values for jobs that do not request their own."""

    memory_per_cpu: int = 0
    time: Number = UNSET
    job: str = ""


class PartitionMaximums(Value, frozen=True, gc=False):
    """The maximum that a job may request."""

    nodes: Number = UNSET
    time: Number = UNSET
    cpus_per_node: Number = UNSET
    memory_per_cpu: int = 0
    partition_memory_per_cpu: Number = UNSET
    partition_memory_per_node: Number = UNSET


class PartitionMinimums(Value, frozen=True, gc=False):
    """The minimum that a job must request."""

    nodes: int = 0


class PartitionPriority(Value, frozen=True, gc=False):
    """The priority of a partition's jobs."""

    job_factor: int = 0
    tier: int = 0


class Partition(Value, frozen=True, gc=False):
    """A partition; also the body of a partition write (v0.0.45)."""

    name: str
    nodes: PartitionNodes = PartitionNodes()
    node_sets: str = ""
    partition: PartitionMode = PartitionMode()
    accounts: Allowed = Allowed()
    qos: PartitionQos = PartitionQos()
    cpus: PartitionCpus = PartitionCpus()
    tres: PartitionTres = PartitionTres()
    defaults: PartitionDefaults = PartitionDefaults()
    maximums: PartitionMaximums = PartitionMaximums()
    minimums: PartitionMinimums = PartitionMinimums()
    priority: PartitionPriority = PartitionPriority()
    grace_time: int = 0
    topology: str = ""
    alternate: str = ""

    @property
    def up(self) -> bool:
        """Whether the partition accepts and starts jobs."""
        return "UP" in self.partition.state


class PartitionsBody(Value, frozen=True, gc=False):
    """Partitions to create or change."""

    partitions: tuple[Partition, ...]
