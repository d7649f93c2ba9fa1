# SPDX-License-Identifier: Apache-2.0
"""The objects of slurmctld: views, requests, responses, states and common values."""
