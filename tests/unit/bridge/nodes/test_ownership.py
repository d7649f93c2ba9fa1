# SPDX-License-Identifier: Apache-2.0
"""Hosts that the bridge created under a former name."""

import pytest

from slinky.bridge.nodes import ownership
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.slurm import Host

BRIDGE = BridgeIdentity("c", "new", frozenset({"old"}))


@pytest.mark.parametrize(
    ("comment", "own"),
    [
        ("slurm-bridge c/old uid 4/100", True),
        ("slurm-bridge c/new uid 4/100", True),
        ("slurm-bridge c/older uid 4/100", False),
        ("slurm-bridge other/old uid 4/100", False),
    ],
)
def test_hosts_of_a_former_name_of_the_bridge_are_its_own(comment: str, own: bool) -> None:
    host = ownership.with_current_signature(Host("n1", comment=comment, words=("IDLE", "EXTERNAL")), BRIDGE)
    assert host is not None
    signature = ownership.host_signature(BRIDGE)
    assert ownership.is_own_host(host, signature) is own
    assert ownership.is_foreign_host(host, signature) is not own
