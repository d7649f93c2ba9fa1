# SPDX-License-Identifier: Apache-2.0
"""Admission webhook: checks that the schemas of our kinds cannot express, before an object is stored."""
