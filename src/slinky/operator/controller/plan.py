# SPDX-License-Identifier: Apache-2.0
"""Which objects a Controller needs, and which it no longer does. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SERVICES, STATEFUL_SETS
from slinky.operator.controller import objects
from slinky.operator.controller.conf import config_data, slurm_conf
from slinky.operator.controller.files import Files
from slinky.operator.controller.objects import Hashes
from slinky.operator.images import Images
from slinky.operator.monitors import SERVICE_MONITORS
from slinky.operator.pieces import Piece, digest


class Facts(NamedTuple):
    """What a Controller's plan is made from."""

    accounting: Accounting | None
    node_sets: tuple[NodeSet, ...]
    files: Files
    slurm_key: bytes
    jwt_key: bytes
    jwks: str
    monitors: bool  # the API server has ServiceMonitors


Manifests = tuple[Resource[Any], Piece]


class Plan(NamedTuple):
    """Manifests to apply, in order, and objects that must not be there."""

    apply: tuple[Manifests, ...]
    remove: tuple[tuple[Resource[Any], Key], ...]
    config_hash: str


def plan(of: Controller, facts: Facts, images: Images) -> Plan:
    """What to do for this Controller."""
    if of.accounting_key and facts.accounting is None:
        raise Blocked("AccountingMissing", f"there is no Accounting {of.accounting_key.name}; create it")
    text = slurm_conf(of, facts.accounting, facts.node_sets, facts.files)
    data = config_data(of, text, facts.files)
    config: list[Manifests] = [(CONFIG_MAPS, objects.config_map(of, data))]
    seen = digest({**data, **facts.files.contents, "~jwks": facts.jwks})
    if of.spec.external:
        return Plan(tuple(config), tuple(_inside(of)), seen)
    hashes = Hashes(_hash(facts.slurm_key), _hash(facts.jwt_key), seen)
    made: list[Manifests] = [
        (SERVICES, objects.internal_service(of)),
        (SERVICES, objects.service(of)),
        *config,
        (STATEFUL_SETS, objects.stateful_set(of, facts.accounting, hashes, images)),
    ]
    monitor = (SERVICE_MONITORS, Key(of.metadata.namespace, of.workload_name))
    if not facts.monitors:
        return Plan(tuple(made), (), seen)
    if of.spec.metrics.enabled and of.spec.metrics.service_monitor.enabled:
        return Plan((*made, (SERVICE_MONITORS, objects.service_monitor(of))), (), seen)
    return Plan(tuple(made), (monitor,), seen)


def _inside(of: Controller) -> Iterable[tuple[Resource[Any], Key]]:
    """What only a slurmctld inside of Kubernetes has."""
    namespace = of.metadata.namespace
    yield STATEFUL_SETS, Key(namespace, of.workload_name)
    yield SERVICES, Key(namespace, of.service_name)
    yield SERVICES, Key(namespace, of.internal_service_name)


def _hash(key: bytes) -> str:
    return digest({"": key}) if key else ""
