# SPDX-License-Identifier: Apache-2.0
"""Devices of DRA drivers: what nodes have (`inventory`), what pods request (`requests`, `demand`), which devices of an
allocation each request gets (`allocation`), and the resource claims that record it (`claims`).
"""
