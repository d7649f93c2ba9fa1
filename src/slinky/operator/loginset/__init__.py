# SPDX-License-Identifier: Apache-2.0
"""LoginSet: hosts where people log in."""
