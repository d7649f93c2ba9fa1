# SPDX-License-Identifier: Apache-2.0
"""Upgrades between releases of Slurm: which version an image has, whether it may run now, and the backup before it."""
