# SPDX-License-Identifier: Apache-2.0
"""The table of pending reasons, compared with the names in Slurm's own library."""

import re

from slinky.insight import pending_reasons
from slinky.insight.limit_reasons import parse_limit
from slinky.lab.slurm.cluster import LabSlurm

#: Names that the library holds beside the reasons and that look like limits, but are options of other programs.
LIMIT = re.compile(r"(?:Assoc|QOS)(?:Grp|Max|Min)[A-Z][A-Za-z]+|Max[A-Z][A-Za-z]+Per(?:Account|User)")


#: The library that slurmctld links, and one reason near the beginning of the file that defines them.
LIBRARY, NEAR_THE_BEGINNING = "/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so", "NvidiaImexChannels"


def texts(slurm: LabSlurm, pattern: str) -> list[str]:
    """The texts in the library, in their order."""
    return slurm.exec("grep", "-ahoE", pattern, LIBRARY).splitlines()


def test_the_table_has_the_reasons_of_the_installed_slurm(slurm: LabSlurm) -> None:
    names = set(texts(slurm, "[A-Z][A-Za-z]{3,}"))
    table = {token for token, _ in pending_reasons.all_reasons()}
    # A linker stores a text that is the end of another one only once: `Constraints` is the end of `BadConstraints`.
    assert {token for token in table - names if not any(name.endswith(token) for name in names)} == set()
    limits = {name for name in names if LIMIT.fullmatch(name) and parse_limit(name)}
    assert limits - table == set()


def test_slurm_has_no_reason_that_the_table_lacks(slurm: LabSlurm) -> None:
    following = texts(slurm, "[[:print:]]{4,}")
    following = following[following.index(NEAR_THE_BEGINNING) :]
    # The compiler keeps the texts of one source file together; the name of the next file ends them.
    end = next(index for index, text in enumerate(following) if text.startswith("../"))
    assert end > 150
    assert set(following[:end]) - {token for token, _ in pending_reasons.all_reasons()} == set()
