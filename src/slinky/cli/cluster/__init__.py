# SPDX-License-Identifier: Apache-2.0
"""The verbs that look at a Slurm cluster and act on it: explain, forecast, queue, nodes, drain and others."""
