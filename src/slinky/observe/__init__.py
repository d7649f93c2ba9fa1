# SPDX-License-Identifier: Apache-2.0
"""How a process is seen: logs, metrics, health."""
