# SPDX-License-Identifier: Apache-2.0
"""Reproducible measurements; each prints ratios against a baseline of the same run and writes JSON."""
