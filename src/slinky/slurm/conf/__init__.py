# SPDX-License-Identifier: Apache-2.0
"""Slurm's configuration files, built from typed models and read back before use.

One module per file, all on `text`, which knows the notation and lets no value add a line or a setting of
its own.
"""

from slinky.slurm.conf.cgroup import CgroupConf
from slinky.slurm.conf.gres import GresConf, GresDevice, GresLine, devices
from slinky.slurm.conf.node import node_settings
from slinky.slurm.conf.slurm import (
    NodeLine,
    NodeSetLine,
    PartitionLine,
    SlurmConf,
    SlurmctldHost,
    cluster_name,
    merge_options,
    problems,
)
from slinky.slurm.conf.slurmdbd import SlurmdbdConf
from slinky.slurm.conf.text import ConfError, Line, Setting, fragment, line, parse, render, word
from slinky.slurm.conf.topology import Block, Switch, Topology, specification

__all__ = [
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
    "cluster_name",
    "devices",
    "fragment",
    "line",
    "merge_options",
    "node_settings",
    "parse",
    "problems",
    "render",
    "specification",
    "word",
]
