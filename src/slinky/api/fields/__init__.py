# SPDX-License-Identifier: Apache-2.0
"""Parts of `spec` and `status` that several kinds share."""
