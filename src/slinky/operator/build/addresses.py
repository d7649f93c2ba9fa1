# SPDX-License-Identifier: Apache-2.0
"""Where daemons find each other. Pure."""

from slinky.api.controller import Controller
from slinky.slurm.conf import word


def conf_server(of: Controller) -> str:
    """Where a daemon gets its configuration. Raises `ConfError`: it stands on lines that a shell may read."""
    return f"{word(of.host, 'host')}:{of.port}"
