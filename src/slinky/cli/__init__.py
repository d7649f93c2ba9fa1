# SPDX-License-Identifier: Apache-2.0
"""The `slinky` command, one module per verb."""
