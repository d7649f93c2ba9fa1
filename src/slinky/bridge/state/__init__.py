# SPDX-License-Identifier: Apache-2.0
"""What the bridge knows: caches of Kubernetes objects, the registry of its Slurm jobs, host ports in use."""
