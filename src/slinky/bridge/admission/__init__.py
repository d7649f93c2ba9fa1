# SPDX-License-Identifier: Apache-2.0
"""Admission of pods that use the bridge's scheduler name."""
