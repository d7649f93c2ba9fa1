# SPDX-License-Identifier: Apache-2.0
"""The objects that slurmctld reads and writes: views, requests, responses, states, small values."""
