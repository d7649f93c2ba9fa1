# SPDX-License-Identifier: Apache-2.0
"""Names under which daemons reach each other."""

from pathlib import Path

from slinky.api.controller import Controller
from slinky.api.names import child_names
from slinky.slurm.conf import checked_name

RESOLV_CONF = Path("/etc/resolv.conf")


def cluster_domain(setting: str) -> str:
    """Return the DNS domain of the Kubernetes cluster: the setting, or what the resolver of this pod uses."""
    if setting:
        return setting
    try:
        return child_names.cluster_domain(RESOLV_CONF.read_text())
    except OSError:
        return child_names.FALLBACK_DOMAIN


def conf_server(controller: Controller) -> str:
    """Return the address from which daemons fetch their configuration.

    Raises `ConfError` for a host that is not one plain word, since the address is part of a command line.
    """
    return f"{checked_name(controller.host, 'host')}:{controller.port}"
