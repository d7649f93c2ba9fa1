# SPDX-License-Identifier: Apache-2.0
"""The accounting database, slurmdbd: its client and its objects."""
