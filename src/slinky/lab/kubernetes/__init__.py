# SPDX-License-Identifier: Apache-2.0
"""Kubernetes in a lab: control plane, nodes, add-ons, certificates."""
