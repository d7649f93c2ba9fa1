# SPDX-License-Identifier: Apache-2.0
"""From pods to a job: which pods form a workload, which resources they request, which options apply."""
