# SPDX-License-Identifier: Apache-2.0
"""The metric families of a cluster, as pure functions of a snapshot.

`FAMILIES` is the table from which both the exporter and docs/exporter.md are made.
"""

from slinky.exporter.families import accounts, controller, jobs, nodes, resources
from slinky.exporter.families.family import PREFIX, Compute, Family, Values

FAMILIES: tuple[Family, ...] = (
    *jobs.FAMILIES,
    *nodes.FAMILIES,
    *resources.FAMILIES,
    *accounts.FAMILIES,
    *controller.FAMILIES,
)

__all__ = ["FAMILIES", "PREFIX", "Compute", "Family", "Values"]
