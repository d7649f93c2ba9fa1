# SPDX-License-Identifier: Apache-2.0
"""Builds Slurm's configuration files from typed models, and parses them back to check the result.

There is one module per file. All of them use `text`, which implements the notation and makes sure that no value can add
a line or a setting.
"""

from slinky.slurm.conf.cgroup import CgroupConf
from slinky.slurm.conf.gres import GresConf, GresDevice, GresLine, parse_devices
from slinky.slurm.conf.node import parse_node_settings
from slinky.slurm.conf.restart_keys import RESTART_KEYS, changed_restart_keys
from slinky.slurm.conf.slurm import (
    NodeLine,
    NodeSetLine,
    PartitionLine,
    SlurmConf,
    SlurmctldHost,
    checked_cluster_name,
    find_problems,
    merge_options,
)
from slinky.slurm.conf.slurmdbd import SlurmdbdConf
from slinky.slurm.conf.text import ConfError, Line, Setting, build_line, checked_name, parse, parse_fragment, render
from slinky.slurm.conf.topology import Block, Switch, Topology, topology_setting

__all__ = [
    "RESTART_KEYS",
    "Block",
    "CgroupConf",
    "ConfError",
    "GresConf",
    "GresDevice",
    "GresLine",
    "Line",
    "NodeLine",
    "NodeSetLine",
    "PartitionLine",
    "Setting",
    "SlurmConf",
    "SlurmctldHost",
    "SlurmdbdConf",
    "Switch",
    "Topology",
    "build_line",
    "changed_restart_keys",
    "checked_cluster_name",
    "checked_name",
    "find_problems",
    "merge_options",
    "parse",
    "parse_devices",
    "parse_fragment",
    "parse_node_settings",
    "render",
    "topology_setting",
]
