# SPDX-License-Identifier: Apache-2.0
"""What is read and written of partitions; see `views` for how such structs are meant."""

from __future__ import annotations

from slinky.slurm.model.values import UNSET, Number, Value

Words = tuple[str, ...]


class PartitionNodes(Value, frozen=True, gc=False):
    """Which nodes a partition has."""

    configured: str = ""
    total: int = 0
    allowed_allocation: str = ""


class Allowed(Value, frozen=True, gc=False):
    """Comma-separated names that may, or may not."""

    allowed: str = ""
    deny: str = ""


class PartitionQos(Value, frozen=True, gc=False):
    """The QOS a partition allows and the one it carries itself."""

    allowed: str = ""
    deny: str = ""
    assigned: str = ""


class PartitionMode(Value, frozen=True, gc=False):
    """Whether a partition is up and shares its nodes."""

    state: Words = ()
    oversubscribe: str = ""
    exclusive: str = ""


class PartitionTres(Value, frozen=True, gc=False):
    """What a partition's nodes add up to."""

    configured: str = ""
    billing_weights: str = ""


class PartitionCpus(Value, frozen=True, gc=False):
    """CPUs of a partition."""

    total: int = 0


class PartitionDefaults(Value, frozen=True, gc=False):
    """What a job gets when it does not ask."""

    memory_per_cpu: int = 0
    time: Number = UNSET
    job: str = ""


class PartitionMaximums(Value, frozen=True, gc=False):
    """What a job may ask for at most."""

    nodes: Number = UNSET
    time: Number = UNSET
    cpus_per_node: Number = UNSET
    memory_per_cpu: int = 0


class PartitionMinimums(Value, frozen=True, gc=False):
    """What a job must ask for at least."""

    nodes: int = 0


class PartitionPriority(Value, frozen=True, gc=False):
    """How a partition's jobs rank."""

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
        """Whether it accepts and starts jobs."""
        return "UP" in self.partition.state


class PartitionsBody(Value, frozen=True, gc=False):
    """Partitions to create or change."""

    partitions: tuple[Partition, ...]
