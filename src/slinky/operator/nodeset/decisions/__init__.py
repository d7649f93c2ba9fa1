# SPDX-License-Identifier: Apache-2.0
"""Pure decisions about workers: how many, which ones, on which nodes, and when to drain and delete them."""
