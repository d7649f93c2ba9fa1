# SPDX-License-Identifier: Apache-2.0
"""Which objects an Accounting needs, and which it no longer does. Pure."""

from typing import Any, NamedTuple

from slinky.api.accounting import Accounting
from slinky.api.names import wellknown
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS
from slinky.operator.accounting import objects
from slinky.operator.accounting.conf import slurmdbd_conf
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import DaemonHashes, Piece, digest, hashed


class AccountingInputs(NamedTuple):
    """What an Accounting's plan is made from."""

    slurm_key: str = ""  # a digest
    jwt_key: bytes = b""
    jwks: str = ""
    password: str = ""


class AccountingPlan(NamedTuple):
    """Manifests to apply, in order, and objects that must not be there."""

    apply: tuple[tuple[Resource[Any], Piece], ...] = ()
    remove: tuple[tuple[Resource[Any], Key], ...] = ()


def plan(of: Accounting, facts: AccountingInputs, images: Images) -> AccountingPlan:
    """What to do for this Accounting."""
    namespace = of.metadata.namespace
    if of.spec.external:
        names = ((STATEFUL_SETS, of.workload_name), (SERVICES, of.service_name), (SECRETS, of.config_name))
        return AccountingPlan(remove=tuple((resource, Key(namespace, name)) for resource, name in names))
    files = {wellknown.SLURMDBD_CONF: slurmdbd_conf(of, facts.password, jwks=bool(facts.jwks))}
    files |= {wellknown.JWKS: facts.jwks} if facts.jwks else {}
    hashes = DaemonHashes(facts.slurm_key, hashed(facts.jwt_key), digest(files))
    return AccountingPlan(
        (
            (SERVICES, objects.service(of)),
            (SECRETS, objects.config_secret(of, files, hashes.config)),
            (STATEFUL_SETS, objects.stateful_set(of, tuple(files), hashes, images)),
        )
    )
