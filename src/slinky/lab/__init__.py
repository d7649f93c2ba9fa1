# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes and a real Slurm on one machine."""
