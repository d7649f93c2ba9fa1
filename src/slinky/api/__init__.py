# SPDX-License-Identifier: Apache-2.0
"""The kinds of `slinky.slurm.net/v1beta1`."""
