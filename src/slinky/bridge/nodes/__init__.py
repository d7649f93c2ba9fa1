# SPDX-License-Identifier: Apache-2.0
"""Kubernetes nodes as Slurm hosts: descriptions, drains, removal."""
