# SPDX-License-Identifier: Apache-2.0
"""What an administrator can set for the whole operator."""

import msgspec

from slinky.operator.build.images import Images


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings; each has a command-line flag of the same name."""

    #: Namespaces to work in; all of them if empty.
    namespaces: tuple[str, ...] = ()
    #: Node condition types whose text goes into drain reasons.
    propagated_node_conditions: tuple[str, ...] = ()
    #: Field manager of everything that is applied.
    manager: str = "slinky-operator"
    #: Image of a daemon when its container names none.
    images: Images = Images()
    #: The cluster's DNS domain; found in resolv.conf if empty.
    cluster_domain: str = ""
    #: Reach slurmrestd by the addresses of its pods and not through its Service: for an operator outside the cluster.
    pod_addresses: bool = False
    #: How many objects of a kind are worked on at once, by the kind in lower case; 4 for those not named.
    workers: dict[str, int] = {}
    #: Unplanned deletions of a NodeSet's workers per window of seconds: this share of the workers, but always
    #: at least the minimum.
    deletion_limit_share: float = 0.25
    deletion_limit_minimum: int = 10
    deletion_limit_window: float = 60.0
    #: How long a worker that is ready may be missing from Slurm's list before it is replaced.
    unregistered_seconds: float = 90.0
    #: How long the trial of a configuration may keep it from being used; 0 tries none. A cluster that runs nothing yet
    #: waits for `trial_first` only.
    trial_seconds: float = 120.0
    trial_first: float = 15.0
    #: Seconds until a changed Secret has certainly reached every pod that mounts it (the kubelets' sync period and
    #: more), and until every credential signed with an old slurm key has ended.
    key_settle: float = 90.0
    key_retire: float = 300.0
    #: Leader election.
    leader_elect: bool = False
    leader_elect_namespace: str = ""
    identity: str = ""
    #: Where metrics and health are served.
    host: str = "0.0.0.0"  # noqa: S104 - Prometheus and the kubelet come from outside the pod
    port: int = 8080
    #: A kubeconfig to use instead of the usual places.
    kubeconfig: str = ""
