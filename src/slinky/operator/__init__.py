# SPDX-License-Identifier: Apache-2.0
"""Runs whole Slurm clusters on Kubernetes: one package per kind, each with plan, objects, status and controller."""
