# SPDX-License-Identifier: Apache-2.0
"""Pure decisions about workers: how many, which, where, when to drain and to delete."""
