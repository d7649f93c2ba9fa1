# SPDX-License-Identifier: Apache-2.0
"""Slurm and JWT keys: generation, key rings, staged rotation."""
