# SPDX-License-Identifier: Apache-2.0
"""Builds gres.conf from a typed model, and parses Slurm's device notations: `gpu:h100:8`, `gpu:h100:2(IDX:0-1)`.

A line without `NodeName` applies to every slurmd, and a slurmd without the device exits. A `GresLine` therefore always
names its nodes. For external nodes the device files need not exist; they only give the devices an index.
"""

import re

from slinky.slurm.conf.text import ConfError, Line, build_line, checked_name, checked_value, render
from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.values import Value

_GRES = re.compile(r"([A-Za-z0-9_]+)(?::([A-Za-z0-9_.\-]+?))??(?::(\d+))?(?:\((?:S|IDX):([^)]*)\))?\Z")


class GresLine(Value, frozen=True, gc=False):
    """Devices of one type on some nodes."""

    nodes: str
    name: str
    type: str | None = None
    files: str | None = None
    count: int | None = None
    cores: str | None = None
    flags: tuple[str, ...] = ()

    def to_line(self) -> Line:
        """The line of the file. Raises `ConfError` for an invalid value."""
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
    """The file gres.conf."""

    lines: tuple[GresLine, ...] = ()
    auto_detect: str | None = "off"

    def render(self) -> str:
        """The text of the file. Raises `ConfError` for an invalid value."""
        head: list[Line] = (
            [] if self.auto_detect is None else [build_line(("AutoDetect", checked_name(self.auto_detect)))]
        )
        return render([*head, *(item.to_line() for item in self.lines)])


class GresDevice(Value, frozen=True, gc=False):
    """A number of devices of one type, with their indices if Slurm reports them."""

    name: str
    type: str = ""
    count: int = 0
    indices: tuple[int, ...] = ()


def parse_devices(text: str) -> tuple[GresDevice, ...]:
    """Parse the value of `gres`, `gres_used` or an entry of `gres_detail`."""
    return tuple(
        _parse_device(term) for term in re.split(r",(?![^(]*\))", text) if term.strip() not in {"", "(null)", "N/A"}
    )


def _parse_device(term: str) -> GresDevice:
    match = _GRES.match(term.strip().removeprefix("gres/"))
    if match is None:
        raise ConfError(f"{term[:60]!r} is not a device")
    name, kind, count, index = match.groups()
    numbers = parse_indices(index) if index and "IDX" in term and index != "N/A" else ()
    return GresDevice(name, kind or "", int(count) if count else max(1, len(numbers)), numbers)


def parse_indices(text: str) -> tuple[int, ...]:
    """Parse numbers written as `0-3,7`."""
    try:
        return tuple(int(number) for number in expand(f"[{text}]")) if text else ()
    except HostlistError as error:
        raise ConfError(str(error)) from error
