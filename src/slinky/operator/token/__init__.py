# SPDX-License-Identifier: Apache-2.0
"""The kind Token: a Slurm JSON web token in a Secret, replaced before it expires."""
