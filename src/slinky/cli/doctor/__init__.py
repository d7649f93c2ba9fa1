# SPDX-License-Identifier: Apache-2.0
"""`slinky doctor`: checks of a Kubernetes before and after an installation, and of a Slurm cluster."""
