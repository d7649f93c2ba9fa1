# SPDX-License-Identifier: Apache-2.0
"""Controller: slurmctld, its configuration, its names."""
