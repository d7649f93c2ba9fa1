# SPDX-License-Identifier: Apache-2.0
"""Slurm and Kubernetes as one system."""

__version__ = "0.1.0"
