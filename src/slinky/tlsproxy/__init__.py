# SPDX-License-Identifier: Apache-2.0
"""Terminates TLS in front of slurmrestd, whose packages have no TLS plugin."""
