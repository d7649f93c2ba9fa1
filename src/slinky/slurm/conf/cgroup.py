# SPDX-License-Identifier: Apache-2.0
"""Builds cgroup.conf from a typed model."""

from slinky.slurm.conf.text import ConfError, build_line, render
from slinky.slurm.model.values import Value

PLUGINS = ("cgroup/v1", "cgroup/v2", "autodetect", "disabled")


class CgroupConf(Value, frozen=True, gc=False):
    """How slurmd confines jobs; the defaults are for a container without systemd on a host with cgroup v2."""

    plugin: str = "cgroup/v2"
    ignore_systemd: bool | None = True
    constrain_cores: bool | None = None
    constrain_devices: bool | None = None
    constrain_memory: bool | None = None
    constrain_swap: bool | None = None
    enable_controllers: bool | None = None
    settings: tuple[tuple[str, str | int], ...] = ()

    def render(self) -> str:
        """The text of the file. Raises `ConfError` for an invalid value."""
        if self.plugin not in PLUGINS:
            raise ConfError(f"the cgroup plugin {self.plugin!r} is not one of {', '.join(PLUGINS)}")
        switches = {
            "IgnoreSystemd": self.ignore_systemd,
            "EnableControllers": self.enable_controllers,
            "ConstrainCores": self.constrain_cores,
            "ConstrainDevices": self.constrain_devices,
            "ConstrainRAMSpace": self.constrain_memory,
            "ConstrainSwapSpace": self.constrain_swap,
        }
        options = [(key, "yes" if on else "no") for key, on in switches.items() if on is not None]
        pairs: list[tuple[str, str | int]] = [("CgroupPlugin", self.plugin), *options, *self.settings]
        return render(build_line(pair) for pair in pairs)
