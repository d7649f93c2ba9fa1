# SPDX-License-Identifier: Apache-2.0
"""The topology of a node is one word of slurmd's configuration."""

import pytest

from slinky.api.fields.topology import node_topology
from slinky.api.names import metadata


@pytest.mark.parametrize(
    ("text", "topology"),
    [
        ("default:leaf2,nvl:b1", "default:leaf2,nvl:b1"),
        (" default:s1 ", "default:s1"),
        ("", ""),
        ("  ", ""),
        ("default:s1 Features=a", ""),
        ("default:s1\nFeatures=a", ""),
        ("default:s1 \x00", ""),
        ("default:s1=a", ""),
        ("s\u00b2", ""),
        ("x" * 1025, ""),
    ],
)
def test_a_topology_with_other_characters_is_ignored(text: str, topology: str) -> None:
    assert node_topology({metadata.TOPOLOGY: text}) == topology
