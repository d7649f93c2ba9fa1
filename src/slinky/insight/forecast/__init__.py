# SPDX-License-Identifier: Apache-2.0
"""When a pending job is expected to start: slurmctld's own plan, or a simulation of its backfill scheduler."""

from slinky.insight.forecast.start_range import StartRange, StartSource, forecast

__all__ = ["StartRange", "StartSource", "forecast"]
