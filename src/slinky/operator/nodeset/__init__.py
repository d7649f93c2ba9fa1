# SPDX-License-Identifier: Apache-2.0
"""NodeSet: a set of Slurm workers, one slurmd per pod."""
