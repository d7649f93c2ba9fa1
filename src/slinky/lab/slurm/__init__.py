# SPDX-License-Identifier: Apache-2.0
"""Slurm beside Kubernetes in a lab: its daemons and their configuration."""
