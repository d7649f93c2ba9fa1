# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources from Slurm's texts: TRES (`cpu=4,mem=16G,gres/gpu:a100=2`) and GRES (`gpu:a100:8(S:0-1)`). Pure.

A part that cannot be read is left out: the texts come from slurmctld and serve figures, not decisions.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

#: Units of amounts: memory is in megabytes unless a unit follows.
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_AMOUNT = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?([KMGTP]?)\Z")
_GRES = re.compile(r"(?P<name>[^:(=,]+)(?::(?P<type>[^:(=,]+))?:(?P<count>\d{1,12})(?P<unit>[KMGTP]?)\Z")
#: Texts whose amounts are remembered: a scrape of the exporter reads those of every job and node several times.
_TEXTS_CACHED = 16_384
MEGABYTE = 2**20

#: Name and type of a generic resource; the type is empty if it has none.
GresKind = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """Amounts of the resources that this library counts."""

    nodes: int = 0
    cpus: int = 0
    memory_bytes: int = 0
    gres: Mapping[GresKind, int] = field(default_factory=dict)

    def gres_count(self, name: str) -> int:
        """The amount of a generic resource of all types."""
        return sum(count for (kind, _), count in self.gres.items() if kind == name)


@lru_cache(maxsize=_TEXTS_CACHED)
def parse_amounts(text: str) -> Mapping[str, int]:
    """Every amount in a TRES text by the name of the resource; memory is in bytes."""
    parts = (part.split("=", 1) for part in text.split(",") if "=" in part)
    return {name: _number(amount, unit="M" if name == "mem" else "") for name, amount in parts}


@lru_cache(maxsize=_TEXTS_CACHED)
def parse_tres(text: str) -> ResourceAmounts:
    """The amounts in a TRES text.

    `gres/gpu=4,gres/gpu:a100=4` are the same four devices: the total without a type counts only if it exceeds the sum
    of the types.
    """
    amounts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    gres: dict[GresKind, int] = {}
    for key, amount in amounts.items():
        if key.startswith("gres/"):
            name, _, kind = key.removeprefix("gres/").partition(":")
            gres[name, kind] = _number(amount)
    return ResourceAmounts(
        nodes=_number(amounts.get("node", "")),
        cpus=_number(amounts.get("cpu", "")),
        memory_bytes=_number(amounts.get("mem", ""), unit="M"),
        gres=_without_repeated_totals(gres),
    )


@lru_cache(maxsize=_TEXTS_CACHED)
def parse_gres(text: str) -> Mapping[GresKind, int]:
    """The devices in a node's GRES text, such as `gpu:a100:4(S:0),gpu:a100:4(S:1),shard:8`."""
    counts: dict[GresKind, int] = {}
    for part in re.split(r",(?![^(]*\))", text):
        if match := _GRES.match(part.partition("(")[0].strip()):
            kind = match["name"], match["type"] or ""
            counts[kind] = counts.get(kind, 0) + int(match["count"]) * _UNITS[match["unit"]]
    return counts


def _without_repeated_totals(gres: dict[GresKind, int]) -> Mapping[GresKind, int]:
    typed: dict[str, int] = {}
    for (name, kind), count in gres.items():
        if kind:
            typed[name] = typed.get(name, 0) + count
    rest = {(name, ""): count - typed.get(name, 0) for (name, kind), count in gres.items() if not kind}
    return {key: count for key, count in gres.items() if key[1]} | {k: count for k, count in rest.items() if count > 0}


def _number(text: str, unit: str = "") -> int:
    """An amount; `unit` is that of a number without one."""
    match = _AMOUNT.match(text)
    if match is None:
        return 0
    value = int(match[1]) + (int(match[2]) / 10 ** len(match[2]) if match[2] else 0)
    return int(value * _UNITS[match[3] or unit])
