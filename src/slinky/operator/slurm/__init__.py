# SPDX-License-Identifier: Apache-2.0
"""The operator's knowledge of its Slurm clusters: connections, snapshots, deadlines of jobs."""
