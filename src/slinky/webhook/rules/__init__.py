# SPDX-License-Identifier: Apache-2.0
"""Admission rules, one module per kind. Pure: a rule looks at an object and at data that was read beforehand."""
