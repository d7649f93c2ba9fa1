# SPDX-License-Identifier: Apache-2.0
"""gres.conf from a typed model, and Slurm's device notations: `gpu:h100:8`, `gpu:h100:2(IDX:0-1)`.

A line without `NodeName` reaches every slurmd and makes those without the device die, so a model line
always names its nodes. Device files need not exist for external nodes; they only give devices an index.
"""

from __future__ import annotations

import re

from slinky.slurm.conf.text import ConfError, Line, build_line, checked_name, checked_value, parse, render
from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.values import Value

_GRES = re.compile(r"([A-Za-z0-9_]+)(?::([A-Za-z0-9_.\-]+?))??(?::(\d+))?(?:\((?:S|IDX):([^)]*)\))?\Z")


class GresLine(Value, frozen=True, gc=False):
    """Devices of one kind on some nodes."""

    nodes: str
    name: str
    type: str | None = None
    files: str | None = None
    count: int | None = None
    cores: str | None = None
    flags: tuple[str, ...] = ()

    def line(self) -> Line:
        """The line of the file."""
        try:
            expand(checked_value(self.nodes, "nodes"))
        except HostlistError as error:
            raise ConfError(str(error)) from error
        return build_line(
            ("NodeName", self.nodes),
            ("Name", checked_name(self.name, "device")),
            ("Type", self.type and checked_name(self.type, "type")),
            ("File", self.files),
            ("Count", self.count),
            ("Cores", self.cores),
            ("Flags", ",".join(checked_name(flag) for flag in self.flags) or None),
        )


class GresConf(Value, frozen=True, gc=False):
    """The whole file."""

    lines: tuple[GresLine, ...] = ()
    auto_detect: str | None = "off"

    def text(self) -> str:
        """The file. Raises `ConfError` for a value that must not be in it."""
        head: list[Line] = (
            [] if self.auto_detect is None else [build_line(("AutoDetect", checked_name(self.auto_detect)))]
        )
        return render([*head, *(item.line() for item in self.lines)])


class GresDevice(Value, frozen=True, gc=False):
    """So many devices of a kind, with their indices where Slurm tells."""

    name: str
    type: str = ""
    count: int = 0
    indices: tuple[int, ...] = ()


def parse_devices(text: str) -> tuple[GresDevice, ...]:
    """What `gres`, `gres_used` or an entry of `gres_detail` says, device kind by device kind."""
    return tuple(_device(term) for term in re.split(r",(?![^(]*\))", text) if term.strip() not in {"", "(null)", "N/A"})


def _device(term: str) -> GresDevice:
    found = _GRES.match(term.strip().removeprefix("gres/"))
    if found is None:
        raise ConfError(f"{term[:60]!r} is not a device")
    name, kind, count, index = found.groups()
    numbers = parse_indices(index) if index and "IDX" in term and index != "N/A" else ()
    return GresDevice(name, kind or "", int(count) if count else max(1, len(numbers)), numbers)


def parse_indices(text: str) -> tuple[int, ...]:
    """Numbers written as `0-3,7`."""
    try:
        return tuple(int(number) for number in expand(f"[{text}]")) if text else ()
    except HostlistError as error:
        raise ConfError(str(error)) from error


def unnamed(text: str) -> list[Line]:
    """Lines of a gres.conf that define devices without naming their nodes."""
    return [item for item in parse(text) if _sets(item, "Name") and not _sets(item, "NodeName")]


def _sets(item: Line, key: str) -> bool:
    return any(setting.is_(key) for setting in item)
