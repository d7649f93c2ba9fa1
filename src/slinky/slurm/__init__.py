# SPDX-License-Identifier: Apache-2.0
"""What any program needs of Slurm."""
