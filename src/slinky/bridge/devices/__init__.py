# SPDX-License-Identifier: Apache-2.0
"""Devices of DRA drivers: what nodes have (`inventory`), how a Slurm host differs from that (`host_gres`), what pods
request (`requests`, `classes`), which devices selectors select (`selection`, `cel`), and which devices of an allocation
each request gets (`allocation`).
"""
