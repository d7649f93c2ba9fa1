# SPDX-License-Identifier: Apache-2.0
"""Parts of specs and statuses that several kinds share."""
