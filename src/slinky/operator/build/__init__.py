# SPDX-License-Identifier: Apache-2.0
"""Builders of manifests that several kinds share. Pure."""
