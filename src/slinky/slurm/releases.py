# SPDX-License-Identifier: Apache-2.0
"""Versions of Slurm, and which of them work together. Pure.

The rules are those of Slurm's upgrade guide (https://slurm.schedmd.com/upgrades.html): a daemon accepts messages, state
files and database records of the three releases before its own (of two before 24.11), and none of a newer release.
Releases are half a year apart since 24.05; those before are listed.
"""

import re
from typing import NamedTuple

#: Releases before the cycle of half a year, oldest first.
EARLIER = ((21, 8), (22, 5), (23, 2), (23, 11))
#: The first release of the cycle of half a year, and the first that accepts three earlier ones.
FIRST_HALF_YEAR = (24, 5)
FIRST_WITH_THREE = (24, 11)

_VERSION = re.compile(r"^(?:slurm(?:-wlm)? )?(\d{2})\.(\d{2})(?:\.(\d+))?(?:[^\d.]|$)", re.MULTILINE)


class Release(NamedTuple):
    """A release of Slurm: year and month."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:02}.{self.month:02}"

    @property
    def number(self) -> int:
        """The position of the release in the sequence of all releases; also for months without a release."""
        if (self.year, self.month) < FIRST_HALF_YEAR:
            return sum((self.year, self.month) >= release for release in EARLIER) - len(EARLIER)
        return (self.year - FIRST_HALF_YEAR[0]) * 2 + (1 if self.month >= 11 else 0 if self.month >= 5 else -1) + 1

    @property
    def window(self) -> int:
        """How many earlier releases it accepts."""
        return 3 if self >= FIRST_WITH_THREE else 2

    def accepts(self, other: "Release") -> bool:
        """Return whether a daemon of this release accepts messages and state of another one."""
        return 0 <= self.number - other.number <= self.window

    def describe_window(self) -> str:
        """Return which releases it accepts, for a message."""
        return f"Slurm {self} accepts its own and the {self.window} releases before it"


class SlurmVersion(NamedTuple):
    """A version of Slurm: a release, and the number of its maintenance version."""

    release: Release
    maintenance: int = 0

    def __str__(self) -> str:
        return f"{self.release}.{self.maintenance}"


def parse_version(text: str) -> SlurmVersion | None:
    """Return the version in the answer of a daemon to `-V`, such as `slurm 26.05.1`; None if there is none."""
    match = _VERSION.search(text.strip())
    if match is None or not 1 <= int(match[2]) <= 12:
        return None
    return SlurmVersion(Release(int(match[1]), int(match[2])), int(match[3] or 0))
