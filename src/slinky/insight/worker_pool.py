# SPDX-License-Identifier: Apache-2.0
"""Worker pools: sets of equal workers, what is free on each, and how many more may be created. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slinky.insight.feature_expression import satisfies
from slinky.insight.job_shape import MEGABYTE, JobShape, NodeRequest
from slinky.insight.tres import GresKind, parse_gres
from slinky.slurm import Host

#: More nodes than Slurm can have: a search for a number of nodes ends here.
MAX_NODES = 65_533

Gres = tuple[tuple[GresKind, int], ...]


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """What a worker without jobs offers."""

    cpus: int
    memory_bytes: int = 0
    gres: Gres = ()
    features: frozenset[str] = frozenset()

    @property
    def free(self) -> "FreeCapacity":
        """What is free on a worker without jobs."""
        return FreeCapacity(self.cpus, self.memory_bytes, self.gres)


class FreeCapacity(NamedTuple):
    """What is free on a worker; `idle` if it has no job. `block` is its place in the topology, if that matters."""

    cpus: int
    memory_bytes: int = 0
    gres: Gres = ()
    idle: bool = True
    block: str = ""

    def slots(self, request: NodeRequest) -> int:
        """How often the request fits."""
        if request.whole:
            return int(self.idle and self._slots(request) > 0)
        return self._slots(request)

    def _slots(self, request: NodeRequest) -> int:
        count = self.cpus // request.cpus
        if request.memory_bytes:
            count = min(count, self.memory_bytes // request.memory_bytes)
        for kind, amount in request.gres:
            if amount and count:
                count = min(count, gres_count(self.gres, kind) // amount)
        return count

    def without(self, request: NodeRequest, times: int) -> "FreeCapacity":
        """What remains after the request was placed so many times."""
        if request.whole:
            return FreeCapacity(0, 0, (), False, self.block)
        gres = self.gres
        for kind, amount in request.gres:
            gres = _without_gres(gres, kind, amount * times)
        cpus, memory = self.cpus - request.cpus * times, self.memory_bytes - request.memory_bytes * times
        return FreeCapacity(cpus, memory, gres, False, self.block)


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A set of equal workers.

    `size` counts all workers, `free` those that can take jobs now or soon, by what is free on them. `growth` is how
    many more may be created now, `limit` how many there may be later; `pause` says why none may be created now.
    Pools with a lower weight grow first. A pool does not grow for a job that Slurm expects to start within
    `patience_seconds` anyway. The shape is None while no worker has registered and none is configured.
    `account_growth` is how many more workers jobs of an account may bring; other accounts have no such limit.
    """

    name: str
    partitions: frozenset[str]
    shape: WorkerShape | None
    free: Mapping[FreeCapacity, int] = field(default_factory=dict)
    size: int = 0
    growth: int = 0
    weight: int = 1
    patience_seconds: float = 0.0
    limit: int = 0
    pause: str = ""
    account_growth: Mapping[str, int] = field(default_factory=dict)

    @property
    def max_size(self) -> int:
        """The largest number of workers."""
        return max(self.size + self.growth, self.limit)

    def has_features(self, constraint: str) -> bool:
        """Whether its workers satisfy the constraint of a job; workers of unknown shape do."""
        return not constraint or self.shape is None or satisfies(self.shape.features, constraint)

    def misfit(self, shape: JobShape) -> str:
        """Why a job can never run here, however many workers there are; empty if it can."""
        if self.shape is None:
            return ""
        if not self.has_features(shape.features):
            return f"the workers of {self.name} do not have the features {shape.features}"
        if smallest_fit(shape, self.shape.free):
            return ""
        most = min(MAX_NODES, max(shape.max_nodes, shape.least_nodes))
        return f"{_missing(shape.per_node(most), self.shape)} of {self.name}"


def smallest_fit(shape: JobShape, full: FreeCapacity | None) -> tuple[int, NodeRequest] | None:
    """How many workers that offer this the job needs at least, and what on each; None if no allowed number suffices.

    Of workers about which nothing is known (None) each node of the job needs one.
    """
    nodes = shape.least_nodes
    request = shape.per_node(nodes)
    if full is None or full.slots(request):
        return nodes, request
    most = min(MAX_NODES, shape.max_nodes or shape.cpus)
    if most <= nodes or not full.slots(shape.per_node(most)):
        return None
    while nodes + 1 < most:  # a request per node shrinks with the number of nodes
        middle = (nodes + most) // 2
        nodes, most = (nodes, middle) if full.slots(shape.per_node(middle)) else (middle, most)
    return most, shape.per_node(most)


def free_workers(
    hosts: Iterable[Host], starting: int, shape: WorkerShape | None, *, by_block: bool = False
) -> dict[FreeCapacity, int]:
    """What is free on hosts that accept jobs, and on workers that are starting.

    A host in a reservation accepts only jobs of the reservation, which are no demand.
    """
    usable = (host for host in hosts if host.state.schedulable and not host.reservation)
    counts: Counter[FreeCapacity] = Counter(free_capacity(host, by_block=by_block) for host in usable)
    if shape is not None and starting:
        counts[shape.free] += starting
    return {free: count for free, count in counts.items() if free.cpus > 0}


def free_capacity(host: Host, *, by_block: bool = False) -> FreeCapacity:
    """What is free on a host."""
    cpus = host.effective_cpus or host.cpus
    used = parse_gres(host.gres_used)
    gres = tuple(sorted((kind, count - used.get(kind, 0)) for kind, count in parse_gres(host.gres).items()))
    memory = max(0, host.real_memory - host.specialized_memory - host.alloc_memory)
    block = host.topology if by_block else ""
    return FreeCapacity(max(0, cpus - host.alloc_cpus), memory * MEGABYTE, gres, not host.state.busy, block)


def host_shape(host: Host) -> WorkerShape:
    """The shape of the worker behind a host."""
    return WorkerShape(
        host.effective_cpus or host.cpus,
        max(0, host.real_memory - host.specialized_memory) * MEGABYTE,
        tuple(sorted(parse_gres(host.gres).items())),
        frozenset(host.features),
    )


def gres_count(gres: Gres, kind: GresKind) -> int:
    """The number of devices that satisfy a request: of one type, or of all types if the request has none."""
    name, type_name = kind
    return sum(count for (other, other_type), count in gres if other == name and type_name in {"", other_type})


def _without_gres(gres: Gres, kind: GresKind, amount: int) -> Gres:
    name, type_name = kind
    remaining = []
    for (other, other_type), count in gres:
        taken = min(count, amount) if other == name and type_name in {"", other_type} else 0
        amount -= taken
        remaining.append(((other, other_type), count - taken))
    return tuple(remaining)


def _missing(request: NodeRequest, worker: WorkerShape) -> str:
    """What a request needs and a worker does not have, as a clause that ends with "a worker"."""
    if request.cpus > worker.cpus:
        return f"it needs {request.cpus} CPUs on one node, more than the {worker.cpus} of a worker"
    if request.memory_bytes > worker.memory_bytes:
        needed, offered = request.memory_bytes // MEGABYTE, worker.memory_bytes // MEGABYTE
        return f"it needs {needed} MB of memory on one node, more than the {offered} MB of a worker"
    for kind, amount in request.gres:
        if amount > (offered := gres_count(worker.gres, kind)):
            return (
                f"it needs {amount} of {':'.join(filter(None, kind))} on one node, more than the {offered} of a worker"
            )
    return "it does not fit on a worker"
