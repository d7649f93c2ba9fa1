# SPDX-License-Identifier: Apache-2.0
"""The kind Controller: slurmctld, its configuration and its Services."""
