# SPDX-License-Identifier: Apache-2.0
"""The DNS domain of the Kubernetes cluster, read once."""

from pathlib import Path

from slinky.api.names import child_names

RESOLV_CONF = Path("/etc/resolv.conf")


def cluster_domain(given: str) -> str:
    """As set, or as this pod's own resolver has it."""
    if given:
        return given
    try:
        return child_names.cluster_domain(RESOLV_CONF.read_text())
    except OSError:
        return child_names.FALLBACK_DOMAIN
