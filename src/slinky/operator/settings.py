# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole operator.

`slinky operator` has one flag per field: the flag has the field's name, its description as the help text, and its
limits. The chart slurm-operator sets the flags from its values.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0)]
Workers = Annotated[int, Meta(ge=1)]


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that an administrator can change."""

    namespaces: Annotated[tuple[str, ...], Meta(description="Namespaces to watch; all namespaces if empty.")] = ()
    propagated_node_conditions: Annotated[
        tuple[str, ...],
        Meta(description="Types of node conditions whose message is added to the drain reason of a cordoned node."),
    ] = ()
    image: Annotated[
        str,
        Meta(
            min_length=1,
            description="Image of containers that name none; {daemon} is replaced by slurmctld, slurmd and so on.",
        ),
    ] = "ghcr.io/slinkyproject/{daemon}:26.05-ubuntu26.04"
    proxy_image: Annotated[
        str,
        Meta(description="Image of slinky, for the containers that terminate TLS in front of slurmrestd; needed by "
             "RestApis with TLS whose spec.tls.proxy names no image."),
    ] = ""  # fmt: skip
    slurm_user: Annotated[
        str,
        Meta(min_length=1, description="Slurm user of the operator's tokens: SlurmUser, or a user with the AdminLevel "
             "Administrator."),
    ] = "slurm"  # fmt: skip
    cluster_domain: Annotated[
        str, Meta(description="DNS domain of the Kubernetes cluster; read from /etc/resolv.conf if empty.")
    ] = ""
    pod_addresses: Annotated[
        bool,
        Meta(description="Connect to slurmrestd by pod address instead of by Service; for an operator that runs "
             "outside the cluster."),
    ] = False  # fmt: skip
    deletion_limit_share: Annotated[
        float,
        Meta(ge=0, le=1, description="Unplanned deletions of workers allowed per window, as a share of the NodeSet's "
             "workers."),
    ] = 0.25  # fmt: skip
    deletion_limit_minimum: Annotated[
        int, Meta(ge=1, description="Unplanned deletions of workers that are always allowed per window.")
    ] = 10
    deletion_limit_window: Annotated[
        float, Meta(gt=0, description="Seconds over which unplanned deletions are counted.")
    ] = 60.0
    unregistered_seconds: Annotated[
        Seconds, Meta(description="Seconds that a ready worker may be missing from Slurm before it is replaced.")
    ] = 90.0
    trial_seconds: Annotated[
        Seconds, Meta(description="Maximum seconds to wait for a configuration trial; 0 disables trials.")
    ] = 120.0
    key_settle: Annotated[
        Seconds, Meta(description="Seconds until a changed Secret has reached every pod that mounts it.")
    ] = 90.0
    key_retire: Annotated[
        Seconds, Meta(description="Seconds until credentials signed with an old slurm key have expired.")
    ] = 300.0
    accounting_workers: Annotated[Workers, Meta(description="Accounting objects reconciled at the same time.")] = 4
    controller_workers: Annotated[Workers, Meta(description="Controller objects reconciled at the same time.")] = 4
    loginset_workers: Annotated[Workers, Meta(description="LoginSet objects reconciled at the same time.")] = 4
    nodeset_workers: Annotated[Workers, Meta(description="NodeSet objects reconciled at the same time.")] = 4
    restapi_workers: Annotated[Workers, Meta(description="RestApi objects reconciled at the same time.")] = 4
    token_workers: Annotated[Workers, Meta(description="Token objects reconciled at the same time.")] = 4
    slurmclient_workers: Annotated[
        Workers, Meta(description="Connections to Slurm clusters that are set up at the same time.")
    ] = 4
    leader_elect: Annotated[
        bool, Meta(description="Work only while holding the leader Lease; required with several replicas.")
    ] = False
    leader_elect_namespace: Annotated[
        str, Meta(description="Namespace of the leader Lease; the namespace of the pod if empty.")
    ] = ""
    kubeconfig: Annotated[
        str,
        Meta(description="Kubeconfig file; by default $KUBECONFIG, then the service account, then ~/.kube/config."),
    ] = ""

    def workers(self, kind: str) -> int:
        """Return how many objects of a kind (in lower case) are reconciled at the same time."""
        workers: int = getattr(self, f"{kind}_workers")
        return workers


class StandaloneSettings(OperatorSettings, frozen=True, kw_only=True):
    """Settings for `python -m slinky.operator`, which also takes the address of metrics and health checks."""

    host: str = "0.0.0.0"  # noqa: S104 - Prometheus and the kubelet connect from outside the pod
    port: int = 8080
