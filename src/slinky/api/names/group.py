# SPDX-License-Identifier: Apache-2.0
"""The API group all our kinds live in."""

GROUP = "slinky.slurm.net"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

#: `kubectl get slinky` lists every kind at once.
CATEGORIES = ("slinky",)
