# SPDX-License-Identifier: Apache-2.0
"""`slinky top`: jobs, pods and nodes of a cluster in one view that follows them."""
