# SPDX-License-Identifier: Apache-2.0
"""Shared by the reconcilers of all kinds: the base reconciler, children, conditions, references, deletion order."""
