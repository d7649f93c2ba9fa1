# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the Slurm client: the shared Slurm with four external hosts, and a proxy to it."""

from tests.integration.slurm.conftest import proxy, slurm

__all__ = ["proxy", "slurm"]
