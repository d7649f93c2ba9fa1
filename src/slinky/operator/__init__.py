# SPDX-License-Identifier: Apache-2.0
"""Runs Slurm clusters on Kubernetes.

Each kind has a package with a `controller` (reads and writes), a `plan`, `objects` and `status` (pure functions).
"""
