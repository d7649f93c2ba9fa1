# SPDX-License-Identifier: Apache-2.0
"""What any controller needs of Kubernetes."""
