# SPDX-License-Identifier: Apache-2.0
"""The metric names of other exporters, each on a page of its own, so that existing dashboards keep working."""

from slinky.exporter.compat import slurm_exporter, slurmctld, vpenso
from slinky.exporter.compat.compat_family import CompatFamily

#: Families by the last part of the page's path, `/metrics/compat/<name>`.
COMPAT_PAGES: dict[str, tuple[CompatFamily, ...]] = {
    "slurm-exporter": slurm_exporter.FAMILIES,
    "slurmctld": slurmctld.FAMILIES,
    "vpenso": vpenso.FAMILIES,
}

__all__ = ["COMPAT_PAGES", "CompatFamily"]
