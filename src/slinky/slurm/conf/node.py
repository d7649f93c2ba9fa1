# SPDX-License-Identifier: Apache-2.0
"""What a slurmd says of itself: Key=Value words on its command line.

Published images let a shell read that line, so only characters that mean themselves between single quotes may stand
in it; whoever refuses early and whoever writes the line ask the same function.
"""

from __future__ import annotations

import re

from slinky.slurm.conf.text import ConfError, Line, Setting

#: Said by whoever starts slurmd; a person's word for it would be a second truth.
RESERVED = frozenset({"nodename", "nodehostname", "nodeaddr", "topology"})

_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(\S*[^\s=])\Z")
_NOT_INERT = re.compile(r"[^A-Za-z0-9_.,:/@%+=^() -]")


def parse_node_settings(text: str) -> Line:
    """A person's settings of a node. Raises `ConfError`, which names every word that is not one."""
    bare = text.strip(" \n")
    if found := _NOT_INERT.search(bare):
        raise ConfError(f"the character {found[0]!r} is not allowed")
    words = bare.split()
    if wrong := [complaint for word in words if (complaint := _complaint(word))]:
        raise ConfError("; ".join(wrong))
    return tuple(Setting(*word.split("=", 1)) for word in words)


def _complaint(word: str) -> str:
    found = _PAIR.match(word)
    if found is None:
        return f"{word[:60]!r} is not Key=Value"
    return f"{found[1]} may not be set here" if found[1].lower() in RESERVED else ""
