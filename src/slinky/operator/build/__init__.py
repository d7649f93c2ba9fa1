# SPDX-License-Identifier: Apache-2.0
"""Builders of the Kubernetes objects that several kinds create."""
