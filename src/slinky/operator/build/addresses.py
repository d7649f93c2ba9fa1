# SPDX-License-Identifier: Apache-2.0
"""Where daemons find each other. Pure."""

from slinky.api.controller import Controller
from slinky.slurm.conf import checked_name


def conf_server(of: Controller) -> str:
    """Where a daemon gets its configuration. Raises `ConfError`: it stands on lines that a shell may read."""
    return f"{checked_name(of.host, 'host')}:{of.port}"
