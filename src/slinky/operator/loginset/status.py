# SPDX-License-Identifier: Apache-2.0
"""How a LoginSet does. Pure."""

from slinky.api.loginset import LoginSet
from slinky.kube.views import ReplicaStatus
from slinky.operator import deployment
from slinky.operator.health import Health
from slinky.operator.sight import Sight


def health(of: LoginSet, workload: ReplicaStatus | None, observed: bool, sight: Sight) -> Health:
    """Conditions of a LoginSet."""
    return deployment.health(of.spec.replicas, workload, observed, sight)
