# SPDX-License-Identifier: Apache-2.0
"""What users see on pods and nodes: conditions, reasons, queue positions."""
