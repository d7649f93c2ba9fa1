# SPDX-License-Identifier: Apache-2.0
"""Machines of a lab: namespaces, network, cgroups, root filesystem, supervision and clean-up."""
