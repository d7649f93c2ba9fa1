# SPDX-License-Identifier: Apache-2.0
"""The topology of a node, from the annotation that a person or a tool writes. Pure.

slurmd receives it as one word of its configuration, so a value with other characters is ignored: a blank in it would
add a setting. A kubelet can write the annotations of its own node.
"""

import re
from collections.abc import Mapping

from slinky.api.names import metadata
from slinky.bounds import VALUE_MAX

_TOPOLOGY = re.compile(rf"[A-Za-z0-9_.:,-]{{1,{VALUE_MAX}}}\Z")


def node_topology(annotations: Mapping[str, str]) -> str:
    """Return the topology in the annotations of a node, such as `default:leaf2,nvl:b1`; empty if it is not valid."""
    text = annotations.get(metadata.TOPOLOGY, "").strip()
    return text if _TOPOLOGY.match(text) else ""
