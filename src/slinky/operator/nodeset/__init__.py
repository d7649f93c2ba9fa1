# SPDX-License-Identifier: Apache-2.0
"""NodeSet: Slurm's workers, one slurmd per pod."""
