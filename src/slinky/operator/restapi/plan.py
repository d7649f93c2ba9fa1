# SPDX-License-Identifier: Apache-2.0
"""Which objects a RestApi needs. Pure."""

from typing import Any

from slinky.api.controller import Controller
from slinky.api.restapi import RestApi
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.views import DEPLOYMENTS, SERVICES
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import DaemonHashes, Piece
from slinky.operator.restapi import objects


def plan(
    of: RestApi, controller: Controller | None, hashes: DaemonHashes, images: Images
) -> tuple[tuple[Resource[Any], Piece], ...]:
    """Manifests to apply, in order."""
    if controller is None:
        raise Blocked("ControllerMissing", f"there is no Controller {of.spec.controller_ref.name}; create it")
    return (SERVICES, objects.service(of)), (DEPLOYMENTS, objects.deployment(of, controller, hashes, images))
