# SPDX-License-Identifier: Apache-2.0
"""From pods to a job: which pods form a workload, what they ask for, which options apply."""
