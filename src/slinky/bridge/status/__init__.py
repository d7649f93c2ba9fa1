# SPDX-License-Identifier: Apache-2.0
"""What users see: pod conditions, reasons, queue positions."""
