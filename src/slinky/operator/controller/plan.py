# SPDX-License-Identifier: Apache-2.0
"""Which objects a Controller needs, and which it no longer does. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SERVICES, STATEFUL_SETS
from slinky.operator.build.images import Images
from slinky.operator.build.monitors import SERVICE_MONITORS
from slinky.operator.build.pod_parts import DaemonHashes, Piece, hashed
from slinky.operator.controller import objects
from slinky.operator.controller.conf import config_data, slurm_conf
from slinky.operator.controller.files import Files
from slinky.operator.controller.objects import Running
from slinky.operator.framework.diff import fingerprint


class ControllerInputs(NamedTuple):
    """What a Controller's plan is made from."""

    accounting: Accounting | None
    node_sets: tuple[NodeSet, ...]
    files: Files
    slurm_key: str  # a digest
    jwt_key: bytes
    jwks: str  # a document of further keys
    monitors: bool  # the API server has ServiceMonitors
    rotation: str = ""  # what goes on with keys


Manifests = tuple[Resource[Any], Piece]


class ControllerPlan(NamedTuple):
    """Manifests to apply, in order, and objects that must not be there."""

    apply: tuple[Manifests, ...]
    remove: tuple[tuple[Resource[Any], Key], ...] = ()


def digest_of(of: Controller, facts: ControllerInputs, images: Images) -> str:
    """A digest of everything that decides whether slurmctld starts: its files, and its own image."""
    if of.accounting_key and facts.accounting is None:
        raise Blocked("AccountingMissing", f"there is no Accounting {of.accounting_key.name}; create it")
    image = of.spec.slurmctld.get("image") or images.of("slurmctld")
    return fingerprint({"data": data(of, facts), "more": facts.files.contents, "image": image})


def data(of: Controller, facts: ControllerInputs, mark: str = "") -> Mapping[str, str]:
    """The files of a generation."""
    text = slurm_conf(of, facts.accounting, facts.node_sets, facts.files, mark, jwks=bool(facts.jwks))
    return config_data(of, text, facts.files, facts.jwks)


def plan(of: Controller, facts: ControllerInputs, images: Images, running: Running | None) -> ControllerPlan:
    """What to do for this Controller, given the generation it is to run; without one, no daemon is touched."""
    if of.spec.external:
        return ControllerPlan(((CONFIG_MAPS, objects.config_map(of, Running(data(of, facts)))),), tuple(_inside(of)))
    made: list[Manifests] = [(SERVICES, objects.internal_service(of)), (SERVICES, objects.service(of))]
    if running is not None:
        hashes = DaemonHashes(facts.slurm_key, hashed(facts.jwt_key), running.digest)
        made += [
            (CONFIG_MAPS, objects.config_map(of, running)),
            (STATEFUL_SETS, objects.stateful_set(of, facts.accounting, hashes, facts.files, images)),
        ]
    if not facts.monitors:
        return ControllerPlan(tuple(made))
    if of.spec.metrics.enabled and of.spec.metrics.service_monitor.enabled:
        return ControllerPlan((*made, (SERVICE_MONITORS, objects.service_monitor(of))))
    return ControllerPlan(tuple(made), ((SERVICE_MONITORS, Key(of.metadata.namespace, of.workload_name)),))


def _inside(of: Controller) -> Iterable[tuple[Resource[Any], Key]]:
    """What only a slurmctld inside of Kubernetes has."""
    namespace = of.metadata.namespace
    yield STATEFUL_SETS, Key(namespace, of.workload_name)
    yield SERVICES, Key(namespace, of.service_name)
    yield SERVICES, Key(namespace, of.internal_service_name)
