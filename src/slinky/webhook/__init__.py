# SPDX-License-Identifier: Apache-2.0
"""Admission: what the schema of our kinds cannot say, decided before anything is stored."""
