# SPDX-License-Identifier: Apache-2.0
"""Which hosts can run a workload: selectors, taints, volumes, host ports, kubelet capacity."""
