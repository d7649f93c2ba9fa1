# SPDX-License-Identifier: Apache-2.0
"""The page: a Slurm cluster in a browser, read-only and live."""
