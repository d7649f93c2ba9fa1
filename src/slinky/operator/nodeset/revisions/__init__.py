# SPDX-License-Identifier: Apache-2.0
"""Revisions of a NodeSet: computing, storing, rolling back, adopting workers."""
