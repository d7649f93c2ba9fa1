# SPDX-License-Identifier: Apache-2.0
"""How many workers the pending jobs need: jobs are packed onto free workers, then onto new ones. Pure.

1. Jobs of equal shape form one row; an array of 100,000 tasks is one row too. Rows of higher priority come first.
2. A row uses free workers (and workers that are starting) of every pool, then new workers of the pool with the lowest
   weight, then of the next one. Only a gang that no pool holds alone is spread over several pools of its partitions.
3. A gang gets all of its workers or none. What no pool can ever hold is impossible, with the reason in words.

A job that asks for segments (`--segment`) uses workers in groups of that size, which are in one block of the topology.

T tasks of n nodes fit on workers with s slots each if the sum of min(s, T) is at least n T, because no two nodes of a
task may be on the same worker. The largest T is found by bisection, so the number of tasks costs nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from slinky.insight.job_shape import JobShape, NodeRequest, PendingDemand
from slinky.insight.worker_pool import MAX_NODES, FreeCapacity, WorkerPool, smallest_fit

#: How many pools a sentence names.
MAX_NAMES = 3


class Outcome(Enum):
    """What the demand model expects of a pending job."""

    STARTS = "free workers suffice"
    GROWS = "new workers start it"
    WAITS = "it waits for workers that are in use"
    IMPOSSIBLE = "no worker can ever run it"
    BLOCKED = "more workers do not help"


class JobVerdict(NamedTuple):
    """What happens with a job, and why: a clause that can follow "Job 7: ".

    `pause` says why the pools that the job waits for may not grow now.
    """

    job_id: int
    outcome: Outcome
    text: str
    pause: str = ""


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """The demand of a queue by pool: new workers, and idle workers that pending jobs will use.

    `jobs` names the job of highest priority for which a pool grows.
    """

    verdicts: tuple[JobVerdict, ...] = ()
    new_workers: Mapping[str, int] = field(default_factory=dict)
    claimed_idle: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def paused(self) -> dict[int, str]:
        """Why jobs wait for workers that may not be created now, by job."""
        return {verdict.job_id: verdict.pause for verdict in self.verdicts if verdict.pause}

    def of(self, *outcomes: Outcome) -> tuple[JobVerdict, ...]:
        """The verdicts with one of these outcomes."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome in outcomes)


def compute_demand(pending: Iterable[PendingDemand], pools: Iterable[WorkerPool], now: float = 0.0) -> QueueDemand:
    """Pack the pending jobs onto the pools."""
    packing = _Packing(sorted(pools, key=lambda pool: (pool.weight, pool.name)), now)
    verdicts: list[JobVerdict] = []
    rows: dict[tuple[object, ...], list[PendingDemand]] = defaultdict(list)
    for job in pending:
        if job.obstacle:
            verdicts.append(JobVerdict(job.job_id, Outcome.BLOCKED, job.obstacle))
        else:
            rows[job.shapes, packing.wait_minutes(job), packing.limited_account(job)].append(job)
    for jobs in rows.values():
        jobs.sort(key=lambda job: (-job.priority, job.job_id))
    for jobs in sorted(rows.values(), key=_row_order):
        verdicts.extend(packing.place_row(jobs))
    return QueueDemand(
        tuple(verdicts),
        {bins.pool.name: bins.opened for bins in packing.bins if bins.opened},
        {bins.pool.name: bins.claimed for bins in packing.bins if bins.claimed},
        {bins.pool.name: bins.first_job for bins in packing.bins if bins.opened},
    )


def _row_order(jobs: Sequence[PendingDemand]) -> tuple[int, int, int]:
    first = jobs[0]
    return -first.priority, -max(shape.min_nodes * shape.cpus for shape in first.shapes), first.job_id


class _Bins:
    """The workers of a pool while they are filled: existing and new ones, by what is free on them."""

    __slots__ = ("accounts", "claimed", "first_job", "free", "full", "growth", "index", "largest", "opened", "pool")

    def __init__(self, pool: WorkerPool, index: int) -> None:
        self.pool, self.index = pool, index
        self.growth = pool.growth  # how many more workers may be opened
        self.accounts = dict(pool.account_growth)  # and how many of them for jobs of an account
        self.full = pool.shape.free if pool.shape else None
        self.free: dict[FreeCapacity, int] = dict(pool.free)
        self.opened = self.claimed = self.first_job = 0
        self.largest = max((free.cpus for free in self.free), default=0)

    def copy(self) -> "_Bins":
        other = _Bins(self.pool, self.index)
        other.free, other.growth, other.opened, other.claimed = dict(self.free), self.growth, self.opened, self.claimed
        other.first_job, other.largest, other.accounts = self.first_job, self.largest, dict(self.accounts)
        return other

    def room(self, account: str) -> int:
        """How many more workers may be opened for jobs of an account."""
        return min(self.growth, max(0, self.accounts.get(account, self.growth)))

    def pause(self, account: str) -> str:
        """Why no worker may be opened now for jobs of an account; empty if that is not so."""
        if self.pool.pause or self.accounts.get(account, 1) > 0:
            return self.pool.pause
        return f"NodeSet {self.pool.name}: the account {account} has as many workers as it may have"

    def take(self, free: FreeCapacity | None, target: "_Target", workers: int, slots: int) -> None:
        """Place `slots` requests on each of so many workers; None means new workers."""
        request = target.request
        if target.account in self.accounts and (free is None or free.idle):
            self.accounts[target.account] -= workers
        if free is None:
            self.opened += workers
            self.growth -= workers
            if self.full is None:
                self.growth = 0  # one job shows how large the workers are
                return
            rest = self.full.without(request, slots)
        else:
            left = self.free[free] - workers
            if left:
                self.free[free] = left
            else:
                del self.free[free]
            self.claimed += workers if free.idle else 0
            rest = free.without(request, slots)
        if rest.cpus > 0:
            self.free[rest] = self.free.get(rest, 0) + workers
        self.largest = max((item.cpus for item in self.free), default=0)


class _Target(NamedTuple):
    """A pool that can hold a row, with how many workers a task needs there and what on each.

    Workers are used in groups of `group` that are in one block of the topology.
    """

    bins: _Bins
    nodes: int
    request: NodeRequest
    group: int = 1
    account: str = ""

    @property
    def growth(self) -> int:
        return self.bins.room(self.account)


class _Choice(NamedTuple):
    """The pools that could ever hold a shape, those of them with room, and why none can hold it."""

    fitting: Sequence["_Bins"]
    targets: Sequence[_Target]
    misfit: str = ""
    account: str = ""

    @property
    def pause(self) -> str:
        return "; ".join([text for bins in self.fitting if (text := bins.pause(self.account))][:MAX_NAMES])

    def wait_text(self, pause: str) -> str:
        if pause:
            return f"it waits for new workers: {pause}"
        names = ", ".join(bins.pool.name for bins in self.fitting[:MAX_NAMES])
        return f"it waits for workers of {names}, which jobs of higher priority use"


class _Slots(NamedTuple):
    """So many groups of workers on which a request fits so often; `free` is None for new workers."""

    bins: _Bins
    free: FreeCapacity | None
    groups: int
    slots: int


class _Packing:
    """The state of one computation."""

    def __init__(self, pools: Sequence[WorkerPool], now: float) -> None:
        self.bins = [_Bins(pool, index) for index, pool in enumerate(pools)]
        self._now = now
        self._patience = max((pool.patience_seconds for pool in pools), default=0.0)
        self._accounts = frozenset(account for pool in pools for account in pool.account_growth)
        self._by_capacity: dict[tuple[str, ...], list[tuple[FreeCapacity | None, list[int]]]] = {}
        self._by_partition: dict[str, list[int]] = defaultdict(list)
        for index, pool in enumerate(pools):
            for name in pool.partitions:
                self._by_partition[name].append(index)

    def wait_minutes(self, job: PendingDemand) -> int | None:
        """In how many minutes Slurm expects to start the job, if that is so soon that a pool may not grow for it."""
        wait = job.expected_start - self._now
        return int(wait // 60) if job.expected_start and wait <= self._patience and self._patience else None

    def limited_account(self, job: PendingDemand) -> str:
        """The account of the job, if a pool limits the workers of that account."""
        return job.account if job.account in self._accounts else ""

    def place_row(self, jobs: Sequence[PendingDemand]) -> Iterable[JobVerdict]:
        """Place jobs of equal shape; the verdicts are in the order of the jobs."""
        first, tasks = jobs[0], sum(job.tasks for job in jobs)
        wait = self.wait_minutes(first)
        if len(first.shapes) > 1:
            return [self._place_heterogeneous(job, wait) for job in jobs]
        choice = self._choose(first.shapes[0], self.limited_account(first))
        if choice.misfit:
            return [JobVerdict(job.job_id, Outcome.IMPOSSIBLE, choice.misfit) for job in jobs]
        started, grown = self._place(first.shapes[0], choice.targets, tasks, wait, first.job_id)
        return _verdicts(jobs, started, started + grown, choice)

    def _place_heterogeneous(self, job: PendingDemand, wait: int | None) -> JobVerdict:
        """Place all components of a heterogeneous job or none."""
        before = [bins.copy() for bins in self.bins]
        grows = False
        for shape in job.shapes:
            choice = self._choose(shape, self.limited_account(job))
            started, grown = (0, 0) if choice.misfit else self._place(shape, choice.targets, 1, wait, job.job_id)
            grows |= grown > 0
            if not started + grown:
                self.bins = before
                outcome = Outcome.IMPOSSIBLE if choice.misfit else Outcome.WAITS
                pause = "" if choice.misfit else choice.pause
                return JobVerdict(job.job_id, outcome, choice.misfit or choice.wait_text(pause), pause)
        outcome = Outcome.GROWS if grows else Outcome.STARTS
        return JobVerdict(job.job_id, outcome, outcome.value)

    def _choose(self, shape: JobShape, account: str) -> "_Choice":
        """The pools that can hold the shape, or why none can."""
        groups = self._groups_of(shape.partitions)
        fitting: list[_Bins] = []
        targets: list[_Target] = []
        least = MAX_NODES
        for full, indexes in groups:
            fit = smallest_fit(shape, full)
            if fit is None:
                continue
            nodes, request = fit
            for index in indexes:
                bins = self.bins[index]
                if shape.features and not bins.pool.has_features(shape.features):
                    continue
                fitting.append(bins)
                least = min(least, nodes)
                if bins.growth > 0 or bins.largest >= request.cpus:
                    targets.append(_Target(bins, nodes, request, max(1, shape.segment), account))
        if not fitting:
            return _Choice(fitting, targets, self._misfit(shape, groups))
        if least > 1 and least > (most := sum(bins.pool.max_size for bins in fitting)):
            names = ", ".join(bins.pool.name for bins in fitting[:MAX_NAMES])
            text = f"it needs {least} workers at the same time, more than the {most} that {names} may have"
            return _Choice(fitting, targets, text)
        if len(groups) > 1:
            targets.sort(key=lambda target: target.bins.index)
        return _Choice(fitting, targets, account=account)

    def _groups_of(self, partitions: tuple[str, ...]) -> list[tuple[FreeCapacity | None, list[int]]]:
        """The pools of these partitions, by what a worker of them offers."""
        known = self._by_capacity.get(partitions)
        if known is None:
            groups: dict[FreeCapacity | None, list[int]] = defaultdict(list)
            for index in sorted({index for name in partitions for index in self._by_partition.get(name, ())}):
                groups[self.bins[index].full].append(index)
            known = self._by_capacity[partitions] = list(groups.items())
        return known

    def _misfit(self, shape: JobShape, groups: Sequence[tuple[FreeCapacity | None, Sequence[int]]]) -> str:
        pools = [self.bins[index].pool for _, indexes in groups for index in indexes[:MAX_NAMES]]
        texts = [text for pool in pools[:MAX_NAMES] if (text := pool.misfit(shape))]
        return "; ".join(texts) or f"no set has workers in the partition {', '.join(shape.partitions)}"

    def _place(
        self, shape: JobShape, targets: Sequence[_Target], tasks: int, wait: int | None, job: int
    ) -> tuple[int, int]:
        """Place as many tasks as possible; returns how many free workers start, and how many new ones do."""
        started = grown = 0
        for target in targets:
            if target.bins.largest >= target.request.cpus:
                started += self._fill([target], tasks - started, job, new=False)
        for target in targets:
            if grown + started < tasks and target.growth > 0:
                grown += self._fill([target], tasks - started - grown, job, new=_may_grow(target, wait))
        if grown + started < tasks and len(targets) > 1 and shape.least_nodes > 1:
            if sum([sum(target.bins.free.values()) + target.growth for target in targets]) < shape.least_nodes:
                return started, grown
            nodes = max(target.nodes for target in targets)
            spread = [target._replace(nodes=nodes, request=shape.per_node(nodes)) for target in targets]
            grown += self._fill(spread, tasks - started - grown, job, new=any(_may_grow(item, wait) for item in spread))
        return started, grown

    def _fill(self, targets: Sequence[_Target], tasks: int, job: int, *, new: bool) -> int:
        """Place as many tasks as possible on these pools together; returns how many."""
        if not tasks:
            return 0
        group = targets[0].group
        nodes = -(-targets[0].nodes // group)
        candidates = [slots for target in targets for slots in _candidates(target, new=new)]
        count = _feasible_tasks(candidates, nodes, tasks)
        remaining = count * nodes
        for bins, free, groups, slots in candidates:
            each = min(slots, count)
            if not remaining or not each:
                continue
            target = next(target for target in targets if target.bins is bins)
            full = min(groups, remaining // each)
            if full:
                bins.take(free, target, full * group, each)
                remaining -= full * each
            if remaining and full < groups and remaining < each:
                bins.take(free, target, group, remaining)
                remaining = 0
            if free is None and not bins.first_job:
                bins.first_job = job
        return count


def _may_grow(target: _Target, wait: int | None) -> bool:
    return wait is None or wait * 60 > target.bins.pool.patience_seconds


def _candidates(target: _Target, *, new: bool) -> Iterable[_Slots]:
    """Workers on which the request fits: the fullest first, then new ones."""
    bins, request, group = target.bins, target.request, target.group
    if bins.largest >= request.cpus:
        fitting = [(free, count, free.slots(request)) for free, count in bins.free.items() if free.cpus >= request.cpus]
        fitting.sort(key=lambda item: (item[0].idle, item[0].cpus))
        for free, count, slots in fitting:
            if slots and count >= group:
                yield _Slots(bins, free, count // group, slots)
    if new and target.growth >= group:
        yield _Slots(bins, None, target.growth // group, bins.full.slots(request) if bins.full else 1)


def _feasible_tasks(candidates: Sequence[_Slots], nodes: int, tasks: int) -> int:
    """The largest number of tasks, each on so many different workers, that fits."""

    def fits(count: int) -> bool:
        return sum(item.groups * min(item.slots, count) for item in candidates) >= nodes * count

    if not candidates or not fits(1):
        return 0
    if any(item.free is None and item.bins.full is None for item in candidates):
        return 1  # nothing is known about the workers: one job shows how large they are
    if fits(tasks):
        return tasks
    low, high = 1, tasks
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _verdicts(jobs: Sequence[PendingDemand], started: int, placed: int, choice: _Choice) -> Iterable[JobVerdict]:
    """The jobs of highest priority get the places; an array counts by its first task."""
    before, waiting = 0, placed < sum(job.tasks for job in jobs)
    pause = choice.pause if waiting else ""
    waits = choice.wait_text(pause) if waiting else ""
    for job in jobs:
        if before < started:
            yield JobVerdict(job.job_id, Outcome.STARTS, Outcome.STARTS.value)
        elif before < placed:
            yield JobVerdict(job.job_id, Outcome.GROWS, Outcome.GROWS.value)
        else:
            yield JobVerdict(job.job_id, Outcome.WAITS, waits, pause)
        before += job.tasks
