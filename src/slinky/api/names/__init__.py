# SPDX-License-Identifier: Apache-2.0
"""Names that are part of the contract: group, labels, annotations, child objects, events, ports, paths."""
