# SPDX-License-Identifier: Apache-2.0
"""How a RestApi does. Pure."""

from slinky.api.restapi import RestApi
from slinky.kube.views import ReplicaStatus
from slinky.operator import deployment
from slinky.operator.health import Health
from slinky.operator.sight import Sight


def health(of: RestApi, workload: ReplicaStatus | None, observed: bool, sight: Sight) -> Health:
    """Conditions of a RestApi."""
    return deployment.health(of.spec.replicas, workload, observed, sight)
