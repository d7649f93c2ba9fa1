# SPDX-License-Identifier: Apache-2.0
"""Devices that overlap, such as a GPU and its partitions. Pure.

A driver lists for each device how much it consumes of the counters that the devices of a pool share. Devices can be
allocated at the same time if they do not exceed a counter together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slinky.bridge.views import CounterSet, CounterUse
from slinky.kube import Quantity

Counter = tuple[str, str]
"""The names of a counter set and of a counter in it."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one pool, and what each device consumes."""

    totals: Mapping[Counter, Quantity] = field(default_factory=dict)
    consumption: Mapping[str, Mapping[Counter, Quantity]] = field(default_factory=dict)  # by device

    def exceeded(self, devices: Iterable[str]) -> str:
        """A counter that these devices together exceed; empty if they can be allocated at the same time."""
        consumed: dict[Counter, int] = {}
        for device in set(devices):
            for counter, amount in self.consumption.get(device, {}).items():
                consumed[counter] = consumed.get(counter, 0) + amount.nano
                if consumed[counter] > self.totals.get(counter, Quantity(0)).nano:
                    return "/".join(counter)
        return ""


def read_counters(sets: Iterable[CounterSet], uses: Mapping[str, Iterable[CounterUse]]) -> Counters:
    """The counters of a pool; `uses` is what each device consumes."""
    totals = {
        (group.name, name): Quantity.parse(amount.value) for group in sets for name, amount in group.counters.items()
    }
    consumption = {
        device: {
            (use.counter_set, name): Quantity.parse(amount.value)
            for use in device_uses
            for name, amount in use.counters.items()
        }
        for device, device_uses in uses.items()
        if device_uses
    }
    return Counters(totals, consumption)
