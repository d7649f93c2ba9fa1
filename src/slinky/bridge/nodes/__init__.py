# SPDX-License-Identifier: Apache-2.0
"""Kubernetes nodes as Slurm hosts: register, drain, replace and remove hosts, report their state."""
