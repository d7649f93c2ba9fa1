# SPDX-License-Identifier: Apache-2.0
"""Which node has a Slurm host if several nodes claim its name. Pure.

A kubelet may change the labels of its own node, so a node can claim the name of another node's host, by mistake or to
get the pods that Slurm placed there. The order of claims does not depend on what the bridge remembers, so that a
restart changes nothing: first the node for which the host was registered, then the node that has this name itself,
then the older node.
"""

from collections.abc import Sequence

from slinky.kube import Node


def sort_claimants(host: str, nodes: Sequence[Node], comment: str) -> list[Node]:
    """The nodes that claim a host; the first has it. `comment` is that of the host in Slurm."""
    registered_for = comment.split()[2:3]  # after the signature, see `nodes.ownership`

    def order(node: Node) -> tuple[bool, bool, str, str]:
        metadata = node.metadata
        return (
            metadata.uid not in registered_for,
            metadata.name != host,
            metadata.creation_timestamp,
            metadata.name,
        )

    return sorted(nodes, key=order)
