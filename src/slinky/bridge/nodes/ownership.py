# SPDX-License-Identifier: Apache-2.0
"""Which Slurm hosts belong to this bridge. Pure.

A bridge begins the comment of every host that it creates with its signature: the cluster and the name of the bridge.
"""

from msgspec import structs

from slinky.bridge import names
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Node
from slinky.slurm import Host

#: The beginning of the signature of every bridge.
SIGNATURE_PREFIX = "slurm-bridge "


def host_signature(identity: BridgeIdentity) -> str:
    """The beginning of the comment of hosts that this bridge created."""
    return f"{SIGNATURE_PREFIX}{identity.cluster}/{identity.bridge}"


def with_current_signature(host: Host | None, identity: BridgeIdentity) -> Host | None:
    """The host; if the bridge created it under a former name, with the signature that it would have now."""
    for name in identity.former if host is not None else ():
        former = host_signature(identity._replace(bridge=name))
        if host is not None and host.comment.startswith(f"{former} "):
            return structs.replace(host, comment=host_signature(identity) + host.comment.removeprefix(former))
    return host


def wants_external_host(node: Node | None) -> bool:
    """Whether the node is labelled to be registered in Slurm without a slurmd, and is not being deleted."""
    return node is not None and names.EXTERNAL_LABEL in node.metadata.labels and not node.metadata.deleting


def is_own_host(host: Host, signature: str) -> bool:
    """Whether this bridge created the host."""
    return host.state.external and host.comment.startswith(f"{signature} ")


def is_foreign_host(host: Host, signature: str) -> bool:
    """Whether another bridge created the host, and manages it."""
    return host.comment.startswith(SIGNATURE_PREFIX) and not host.comment.startswith(f"{signature} ")


def is_of_other_cluster(host: Host, signature: str) -> bool:
    """Whether a bridge of another cluster created the host; then no node of this cluster is behind the host."""
    return is_foreign_host(host, signature) and not host.comment.startswith(f"{signature.rpartition('/')[0]}/")
