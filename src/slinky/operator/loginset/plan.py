# SPDX-License-Identifier: Apache-2.0
"""Which objects a LoginSet needs. Pure; the host keys are apart, since they are made once and not compared."""

from typing import Any

from slinky.api.controller import Controller
from slinky.api.loginset import LoginSet
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.views import CONFIG_MAPS, DEPLOYMENTS, SERVICES
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import Piece
from slinky.operator.loginset import objects
from slinky.operator.loginset.objects import LoginSetHashes


def plan(
    of: LoginSet, controller: Controller | None, hashes: LoginSetHashes, images: Images, domain: str
) -> tuple[tuple[Resource[Any], Piece], ...]:
    """Manifests to apply, in order."""
    if controller is None:
        raise Blocked("ControllerMissing", f"there is no Controller {of.spec.controller_ref.name}; create it")
    return (
        (CONFIG_MAPS, objects.ssh_config(of)),
        (SERVICES, objects.service(of)),
        (DEPLOYMENTS, objects.deployment(of, controller, hashes, images, domain)),
    )
