# SPDX-License-Identifier: Apache-2.0
"""How the verbs reach a Slurm cluster, read it, and find the job or node that an argument names."""
