# SPDX-License-Identifier: Apache-2.0
"""Devices that are parts of one another, such as the slices of a GPU. Pure.

A driver tells of each device what it takes of counters that several share. Devices can be held at the same time if
together they take no more than there is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slinky.bridge.state.views import CounterSet, CounterUse
from slinky.kube import Quantity

Counter = tuple[str, str]


@dataclass(frozen=True)
class Counters:
    """The counters of one pool, and what each device takes of them."""

    there: Mapping[Counter, Quantity] = field(default_factory=dict)
    taken_by: Mapping[str, Mapping[Counter, Quantity]] = field(default_factory=dict)

    def exceeded(self, devices: Iterable[str]) -> str:
        """The counter of which these devices together take more than there is; empty if they can be held at once."""
        total: dict[Counter, int] = {}
        for device in set(devices):
            for counter, amount in self.taken_by.get(device, {}).items():
                total[counter] = total.get(counter, 0) + amount.nano
                if total[counter] > self.there.get(counter, Quantity(0)).nano:
                    return "/".join(counter)
        return ""


def read_counters(sets: Iterable[CounterSet], uses: Mapping[str, Iterable[CounterUse]]) -> Counters:
    """The counters of a pool and its devices."""
    there = {
        (group.name, name): Quantity.parse(amount.value) for group in sets for name, amount in group.counters.items()
    }
    taken = {
        device: {
            (use.counter_set, name): Quantity.parse(amount.value)
            for use in used
            for name, amount in use.counters.items()
        }
        for device, used in uses.items()
        if used
    }
    return Counters(there, taken)
