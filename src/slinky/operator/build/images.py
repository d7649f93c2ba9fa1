# SPDX-License-Identifier: Apache-2.0
"""Which image a container gets when nobody names one."""

from typing import NamedTuple


class Images(NamedTuple):
    """A pattern with `{daemon}` in it, such as `registry.example/{daemon}:26.05`."""

    pattern: str = "ghcr.io/slinkyproject/{daemon}:26.05-ubuntu26.04"

    def of(self, daemon: str) -> str:
        """The image of one daemon."""
        return self.pattern.format(daemon=daemon)
