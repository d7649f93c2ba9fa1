# SPDX-License-Identifier: Apache-2.0
"""Revisions of a NodeSet: comparing, storing, rolling back, and adopting workers."""
