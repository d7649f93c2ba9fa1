# SPDX-License-Identifier: Apache-2.0
"""How a RestApi does. Pure."""

from slinky.api.restapi import RestApi
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework import deployment_conditions
from slinky.operator.framework.conditions import ObjectHealth
from slinky.operator.slurm.snapshot import SlurmSnapshot


def health(of: RestApi, workload: ReplicaStatus | None, observed: bool, sight: SlurmSnapshot) -> ObjectHealth:
    """Conditions of a RestApi."""
    return deployment_conditions.health(of.spec.replicas, workload, observed, sight)
