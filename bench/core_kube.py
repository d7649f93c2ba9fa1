# SPDX-License-Identifier: Apache-2.0
"""Speed and size of `slinky.kube`."""
