# SPDX-License-Identifier: Apache-2.0
"""`slinky convert`: a slurm.conf, or values of the charts of slurm-operator, as values of our charts."""
