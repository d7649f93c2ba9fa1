# SPDX-License-Identifier: Apache-2.0
"""In-memory state: caches of Kubernetes objects, the registry of the bridge's Slurm jobs, host ports in use."""
