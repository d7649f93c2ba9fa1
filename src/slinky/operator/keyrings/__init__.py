# SPDX-License-Identifier: Apache-2.0
"""Key rings: the pure rules by which Slurm keys and JWT keys are rotated in stages."""
