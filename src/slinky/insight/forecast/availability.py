# SPDX-License-Identifier: Apache-2.0
"""Free resources of every node over time, and the earliest time at which a job fits. Pure.

slurmctld's backfill scheduler keeps a list of time slots, each with a bitmap of free nodes. `Availability` does the
same, with one bitmap (a Python integer) per amount of free resources: nodes that have equally much free are one key of
a slot. A job fits into a slot on the union of the bitmaps whose key has enough, so the cost of a test does not depend
on the number of nodes. For each shape of job a table says which key a node has after the job was placed on it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slinky.insight.job_requirements import HostResources, JobRequirements
from slinky.insight.tres import GresKind

#: Free amounts of one node: its class, CPUs, memory and each generic resource of the class.
Level = tuple[int, ...]


@dataclass(slots=True)
class Transitions:
    """What one shape of job does to the nodes: the key of a node after the job was placed on it, by the key before.

    Keys on which the job does not fit are missing. `known` is the number of keys that were looked at.
    """

    after: dict[int, int] = field(default_factory=dict)
    known: int = 0


@dataclass(slots=True)
class TimeSlot:
    """What is free from `begin` until the next slot begins. `levels` has one bitmap of nodes per key."""

    begin: int
    levels: dict[int, int]
    reserved: int = 0
    licenses: dict[str, int] = field(default_factory=dict)

    def copy(self, begin: int) -> "TimeSlot":
        """The same state from another time on."""
        return TimeSlot(begin, dict(self.levels), self.reserved, dict(self.licenses))


@dataclass(frozen=True, slots=True)
class Placement:
    """What a job asks of the availability: `mask` are the nodes that it may use, `required` those that it must."""

    need: JobRequirements
    mask: int
    table: Transitions
    required: int = 0
    licenses: Mapping[str, int] = field(default_factory=dict)
    #: The nodes and the end of the job's own reservation; such a job ignores reservations.
    reservation_end: int | None = None


class Availability:
    """The time slots of a cluster. The last slot has no end."""

    def __init__(self, hosts: Sequence[HostResources], begin: int, licenses: Mapping[str, int]) -> None:
        self._classes: dict[tuple[int, int, tuple[tuple[GresKind, int], ...]], int] = {}
        self._kinds: list[tuple[GresKind, ...]] = []
        self._full: list[Level] = []
        self._keys: dict[Level, int] = {}
        self._levels: list[Level] = []
        self._transitions: dict[tuple[int, int, tuple[tuple[GresKind, int], ...], bool], Transitions] = {}
        self._emptied = Transitions()
        levels: dict[int, int] = {}
        for index, host in enumerate(hosts):
            key = self._key(self._full[self._class_of(host)])
            levels[key] = levels.get(key, 0) | 1 << index
        self._full_keys = tuple(levels)
        self.slots = [TimeSlot(begin, levels, licenses=dict(licenses))]
        self._begins = [begin]

    # --- keys and shapes

    def _class_of(self, host: HostResources) -> int:
        identity = host.cpus, host.memory, tuple(sorted(host.gres.items()))
        if identity not in self._classes:
            self._classes[identity] = len(self._kinds)
            self._kinds.append(tuple(kind for kind, _ in identity[2]))
            counts = (count for _, count in identity[2])
            self._full.append((self._classes[identity], host.cpus, host.memory, *counts))
        return self._classes[identity]

    def _key(self, level: Level) -> int:
        key = self._keys.get(level)
        if key is None:
            key = self._keys[level] = len(self._levels)
            self._levels.append(level)
        return key

    def transitions(self, need: JobRequirements) -> Transitions:
        """The table of a shape."""
        identity = need.cpus, need.memory, tuple(sorted(need.gres.items())), need.exclusive
        table = self._transitions.get(identity)
        if table is None:
            table = self._transitions[identity] = Transitions()
        return table

    def _complete(self, table: Transitions, need: JobRequirements) -> None:
        """Extend the table of a shape to every key that exists."""
        while table.known < len(self._levels):
            after = self._after(table.known, need)
            if after is not None:
                table.after[table.known] = after
            table.known += 1

    def _whole_nodes(self) -> Transitions:
        """The table of a job that leaves nothing on its nodes."""
        table = self._emptied
        while table.known < len(self._levels):
            level = self._levels[table.known]
            table.after[table.known] = self._key((level[0], *(0 for _ in level[1:])))
            table.known += 1
        return table

    def _after(self, key: int, need: JobRequirements, *, forced: bool = False) -> int | None:
        """The key of a node after the job was placed on it; `forced` places a job that runs already."""
        level = self._levels[key]
        host_class = level[0]
        if need.exclusive:
            if level != self._full[host_class] and not forced:
                return None
            return self._key((host_class, *(0 for _ in level[1:])))
        amounts = self._amounts(host_class, need)
        if amounts is None:
            return key if forced else None
        rest = tuple(have - want for have, want in zip(level[1:], amounts, strict=True))
        if min(rest) < 0:
            if not forced:
                return None
            rest = tuple(max(amount, 0) for amount in rest)
        return self._key((host_class, *rest))

    def _amounts(self, host_class: int, need: JobRequirements) -> Level | None:
        """What the job takes from a node of this class; a request without a type takes devices of the first type."""
        kinds, full = self._kinds[host_class], self._full[host_class]
        wanted = [0] * len(kinds)
        for kind, count in need.gres.items():
            fitting = [n for n, other in enumerate(kinds) if other == kind or (not kind[1] and other[0] == kind[0])]
            left = count
            for index in fitting:
                taken = min(left, full[3 + index] - wanted[index])
                wanted[index] += taken
                left -= taken
            if left > 0:
                return None
        return (need.cpus, need.memory, *wanted)

    # --- running jobs and reservations

    def occupy(self, jobs: Sequence[tuple[int, JobRequirements, int, Mapping[str, int]]]) -> None:
        """Place jobs that run already, given by their end, needs, nodes and licences.

        The slots are built from the last end backwards, so that each job costs one change of one slot.
        """
        begin, slot = self.slots[0].begin, self.slots[0]
        built: list[TimeSlot] = []
        for end, need, nodes, licenses in sorted(jobs, key=lambda job: -job[0]):
            if end <= begin:
                continue
            if not built or built[-1].begin != end:
                built.append(slot.copy(end))
            self._force(slot, nodes, need)
            for name, count in licenses.items():
                slot.licenses[name] = slot.licenses.get(name, 0) - count
        self.slots = [slot, *reversed(built)]
        self._begins = [entry.begin for entry in self.slots]

    def reserve(self, nodes: int, begin: int, end: int) -> None:
        """Keep nodes free for a reservation: only its own jobs may use them."""
        if end <= self._begins[0]:
            return
        first, last = self._split(max(begin, self._begins[0])), self._split(end)
        for slot in self.slots[first:last]:
            slot.reserved |= nodes

    # --- pending jobs

    def earliest(self, wanted: Placement, seconds: int, not_before: int) -> tuple[int, int] | None:
        """The earliest start of a job and its nodes; None if the cluster never has enough for it."""
        slots, count = self.slots, len(self.slots)
        fits = dict[int, int]()
        self._complete(wanted.table, wanted.need)
        first = max(bisect_right(self._begins, not_before) - 1, 0)
        while first < count:
            start = max(slots[first].begin, not_before)
            end = start + seconds
            if wanted.reservation_end is not None and end > wanted.reservation_end:
                return None
            nodes, index = wanted.mask, first
            while index < count and (index == first or slots[index].begin < end):
                fit = fits.get(index)
                if fit is None:
                    fit = fits[index] = self._fit(slots[index], wanted)
                nodes &= fit
                if nodes.bit_count() < wanted.need.nodes or nodes & wanted.required != wanted.required:
                    break
                index += 1
            else:
                return start, self._choose(nodes, slots[first], wanted)
            # A slot that is too full by itself rules out every start before its end.
            alone = fits[index] & wanted.mask
            is_full = alone.bit_count() < wanted.need.nodes or alone & wanted.required != wanted.required
            first = index + 1 if is_full else first + 1
        return None

    def allocate(self, wanted: Placement, nodes: int, begin: int, end: int, *, whole: bool = False) -> None:
        """Give nodes to a job for a time, with all that is free on them if `whole`."""
        first, last = self._split(begin), self._split(end)
        table = self._whole_nodes() if whole else wanted.table
        for slot in self.slots[first:last]:
            self._take(slot, nodes, table)
            for name, count in wanted.licenses.items():
                slot.licenses[name] = slot.licenses.get(name, 0) - count

    def _fit(self, slot: TimeSlot, wanted: Placement) -> int:
        """The nodes of a slot on which the job fits."""
        for name, count in wanted.licenses.items():
            if slot.licenses.get(name, 0) < count:
                return 0
        fit = 0
        levels = slot.levels
        for key in levels.keys() & wanted.table.after.keys():
            fit |= levels[key]
        return fit if wanted.reservation_end is not None else fit & ~slot.reserved

    def _take(self, slot: TimeSlot, nodes: int, table: Transitions) -> None:
        """Place a job that fits on these nodes of a slot."""
        levels, left, after = slot.levels, nodes, table.after
        moved: list[tuple[int, int]] = []
        for key in levels.keys() & after.keys():
            hit = levels[key] & left
            if hit:
                moved.append((key, hit))
                left ^= hit
                if not left:
                    break
        self._move(levels, ((key, after[key], hit) for key, hit in moved))

    def _force(self, slot: TimeSlot, nodes: int, need: JobRequirements) -> None:
        """Place a job that runs already, even if the nodes seem to have too little."""
        hits = [(key, members & nodes) for key, members in slot.levels.items() if members & nodes]
        forced = ((key, self._after(key, need, forced=True), hit) for key, hit in hits)
        self._move(slot.levels, ((key, key if after is None else after, hit) for key, after, hit in forced))

    @staticmethod
    def _move(levels: dict[int, int], moves: Iterable[tuple[int, int, int]]) -> None:
        for key, after, hit in moves:
            rest = levels[key] ^ hit
            if rest:
                levels[key] = rest
            else:
                del levels[key]
            levels[after] = levels.get(after, 0) | hit

    def _choose(self, nodes: int, slot: TimeSlot, wanted: Placement) -> int:
        """The required nodes, then nodes that are in use already, so that whole nodes remain for others."""
        chosen, missing = wanted.required, wanted.need.nodes - wanted.required.bit_count()
        if missing <= 0:
            return lowest_bits(chosen, wanted.need.nodes)
        rest = nodes & ~chosen
        if not wanted.need.exclusive:
            untouched = 0
            for key in self._full_keys:
                untouched |= slot.levels.get(key, 0)
            partly = lowest_bits(rest & ~untouched, missing)
            chosen |= partly
            missing -= partly.bit_count()
            rest &= ~partly
        return chosen | lowest_bits(rest, missing)

    def _split(self, time: int) -> int:
        """The index of the slot that begins at this time; the slot is created if needed."""
        index = bisect_right(self._begins, time) - 1
        if self._begins[index] == time:
            return index
        self.slots.insert(index + 1, self.slots[index].copy(time))
        self._begins.insert(index + 1, time)
        return index + 1


def lowest_bits(bits: int, count: int) -> int:
    """The `count` lowest bits that are set, or all of them if there are fewer."""
    if count <= 0:
        return 0
    if count == 1:
        return bits & -bits
    if bits.bit_count() <= count:
        return bits
    low, high = 0, bits.bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        if (bits & ((1 << middle) - 1)).bit_count() >= count:
            high = middle
        else:
            low = middle
    return bits & ((1 << high) - 1)
