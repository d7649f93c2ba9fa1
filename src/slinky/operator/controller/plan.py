# SPDX-License-Identifier: Apache-2.0
"""The child objects of a Controller, and those that it no longer needs. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SERVICES, STATEFUL_SETS
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import DaemonHashes, Images, JsonObject, digest_value
from slinky.operator.controller import objects
from slinky.operator.controller.accounting_switch import storage_host
from slinky.operator.controller.conf import config_data, slurm_conf
from slinky.operator.controller.objects import ActiveConfig
from slinky.operator.framework.children import SERVICE_MONITORS, ChildrenPlan
from slinky.operator.framework.diff import fingerprint


class ControllerInputs(NamedTuple):
    """What the plan of a Controller is computed from, besides the Controller itself."""

    accounting: Accounting | None  # the one that slurmctld is to use now
    node_sets: tuple[NodeSet, ...]
    files: Files
    slurm_key: str  # digest of the mounted slurm keys
    jwt_key: bytes
    jwks: str  # JWKS document with further keys
    service_monitors: bool  # whether the API server serves the kind ServiceMonitor
    rotation: str = ""  # description of key rotations in progress
    wanted_accounting: Accounting | None = None  # the one that the spec refers to, if it exists


def config_digest(controller: Controller, inputs: ControllerInputs, images: Images) -> str:
    """Return a digest of everything that determines whether slurmctld starts: its files and its image."""
    if controller.accounting_key and inputs.accounting is None and inputs.wanted_accounting is None:
        raise Blocked("AccountingMissing", f"there is no Accounting {controller.accounting_key.name}; create it")
    files, image = config_files(controller, inputs), wanted_image(controller, images)
    return fingerprint({"data": files, "more": inputs.files.contents, "image": image})


def wanted_image(controller: Controller, images: Images) -> str:
    """Return the image of slurmctld that the spec asks for."""
    return str(controller.spec.slurmctld.get("image") or images.image_for("slurmctld"))


def config_files(controller: Controller, inputs: ControllerInputs, generation: str = "") -> Mapping[str, str]:
    """Return the files of a generation."""
    text = slurm_conf(controller, inputs.accounting, inputs.node_sets, inputs.files, generation, jwks=bool(inputs.jwks))
    return config_data(controller, text, inputs.files, inputs.node_sets, inputs.jwks)


def plan(controller: Controller, inputs: ControllerInputs, images: Images, config: ActiveConfig | None) -> ChildrenPlan:
    """Return the children of a Controller that is to run `config`; without one, no daemon is changed."""
    if controller.spec.external:
        config_map = objects.config_map(controller, ActiveConfig(config_files(controller, inputs)))
        return ChildrenPlan(((CONFIG_MAPS, config_map),), tuple(_internal_children(controller)))
    children: list[tuple[Resource[Any], JsonObject]] = [
        (SERVICES, objects.internal_service(controller)),
        (SERVICES, objects.service(controller)),
    ]
    if config is not None:
        hashes = DaemonHashes(inputs.slurm_key, digest_value(inputs.jwt_key), config.started)
        accounting = inputs.accounting if _uses(config, inputs.accounting) else None
        running = _with_image(controller, config.image)
        stateful_set = objects.stateful_set(running, accounting, hashes, inputs.files, images)
        children += [(CONFIG_MAPS, objects.config_map(controller, config)), (STATEFUL_SETS, stateful_set)]
    if not inputs.service_monitors:
        return ChildrenPlan(tuple(children))
    if controller.spec.metrics.enabled and controller.spec.metrics.service_monitor.enabled:
        return ChildrenPlan((*children, (SERVICE_MONITORS, objects.service_monitor(controller))))
    monitor = Key(controller.metadata.namespace, controller.workload_name)
    return ChildrenPlan(tuple(children), ((SERVICE_MONITORS, monitor),))


def _with_image(controller: Controller, image: str) -> Controller:
    """Return the Controller with the image of the generation that it is to run."""
    if not image:
        return controller
    spec = msgspec.structs.replace(controller.spec, slurmctld={**controller.spec.slurmctld, "image": image})
    return msgspec.structs.replace(controller, spec=spec)


def _uses(config: ActiveConfig, accounting: Accounting | None) -> bool:
    """Return whether these files name the Accounting; those of a generation that is still tried do not count."""
    return accounting is not None and storage_host(config.data) == accounting.host


def _internal_children(controller: Controller) -> Iterable[tuple[Resource[Any], Key]]:
    """Return the children that only a slurmctld inside Kubernetes has."""
    namespace = controller.metadata.namespace
    yield STATEFUL_SETS, Key(namespace, controller.workload_name)
    yield SERVICES, Key(namespace, controller.service_name)
    yield SERVICES, Key(namespace, controller.internal_service_name)
