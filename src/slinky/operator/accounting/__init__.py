# SPDX-License-Identifier: Apache-2.0
"""Accounting: slurmdbd in front of a database."""
