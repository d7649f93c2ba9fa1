# SPDX-License-Identifier: Apache-2.0
"""Token: a Slurm JSON web token, kept fresh in a Secret."""
