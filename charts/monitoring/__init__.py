# SPDX-License-Identifier: Apache-2.0
"""Dashboards and alerts of the charts: one description each, from which the delivered files are generated."""
