# SPDX-License-Identifier: Apache-2.0
"""One shared, continuously refreshed copy of a cluster's jobs, nodes, partitions and reservations."""
