# SPDX-License-Identifier: Apache-2.0
"""File descriptors that uvloop takes for those of an open connection.

When a connection is cut off while it is being established, uvloop may keep a transport whose descriptor is closed
already (MagicStack/uvloop#653). The kernel gives the same number to the next connection, and uvloop refuses it with a
`RuntimeError`, again and again until the old transport ends.
"""

import os
import re

_IN_USE = re.compile(r"File descriptor (\d+) is used by transport")


def occupy_stale_descriptor(error: RuntimeError) -> bool:
    """Whether uvloop refused a connection for this reason; if so, occupy the descriptor, so that the next one differs.

    The old transport closes the descriptor when it ends.
    """
    match = _IN_USE.search(str(error))
    if match is None:
        return False
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor != int(match[1]):
        os.close(descriptor)
    return True
