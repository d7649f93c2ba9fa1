# SPDX-License-Identifier: Apache-2.0
"""Planned outages of a whole cluster: which phase comes next, and the reservation that keeps jobs out of it."""
