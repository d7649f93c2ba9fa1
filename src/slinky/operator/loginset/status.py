# SPDX-License-Identifier: Apache-2.0
"""How a LoginSet does. Pure."""

from slinky.api.loginset import LoginSet
from slinky.kube.views import ReplicaStatus
from slinky.operator.framework import deployment_conditions
from slinky.operator.framework.conditions import Health
from slinky.operator.slurm.snapshot import Sight


def health(of: LoginSet, workload: ReplicaStatus | None, observed: bool, sight: Sight) -> Health:
    """Conditions of a LoginSet."""
    return deployment_conditions.health(of.spec.replicas, workload, observed, sight)
