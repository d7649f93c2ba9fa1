# SPDX-License-Identifier: Apache-2.0
"""Parses the settings of a node that slurmd gets on its command line (`slurmd --conf`).

The published images pass that line through a shell, so only characters without a special meaning are allowed. The
admission webhook and the code that writes the line both use this function.
"""

import re

from slinky.slurm.conf.text import ConfError, Line, Setting

#: Keys that the operator sets itself; a user's value would contradict it.
RESERVED_KEYS = frozenset({"nodename", "nodehostname", "nodeaddr", "topology"})

_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(\S*[^\s=])\Z")
_FORBIDDEN_CHARACTER = re.compile(r"[^A-Za-z0-9_.,:/@%+=^() -]")


def parse_node_settings(text: str) -> Line:
    """A user's settings of a node. Raises `ConfError`, which names every invalid word."""
    stripped = text.strip(" \n")
    if match := _FORBIDDEN_CHARACTER.search(stripped):
        raise ConfError(f"the character {match[0]!r} is not allowed")
    words = stripped.split()
    if errors := [error for word in words if (error := _word_error(word))]:
        raise ConfError("; ".join(errors))
    return tuple(Setting(*word.split("=", 1)) for word in words)


def _word_error(word: str) -> str:
    match = _PAIR.match(word)
    if match is None:
        return f"{word[:60]!r} is not Key=Value"
    return f"{match[1]} may not be set here" if match[1].lower() in RESERVED_KEYS else ""
