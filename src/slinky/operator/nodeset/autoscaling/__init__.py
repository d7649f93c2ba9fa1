# SPDX-License-Identifier: Apache-2.0
"""How many workers a NodeSet with autoscaling has: the demand of the queue, a pure decision, and one writer."""
