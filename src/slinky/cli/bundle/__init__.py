# SPDX-License-Identifier: Apache-2.0
"""`slinky gather`: a support bundle of a cluster, without its secrets."""
