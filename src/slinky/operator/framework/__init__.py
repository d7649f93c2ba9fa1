# SPDX-License-Identifier: Apache-2.0
"""What the reconcilers of all kinds share: the base reconciler, children, conditions, references, deletion order."""
