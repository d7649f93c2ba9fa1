# SPDX-License-Identifier: Apache-2.0
"""The kind Accounting: slurmdbd with its database."""
