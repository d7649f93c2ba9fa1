# SPDX-License-Identifier: Apache-2.0
"""The child objects of an Accounting, and those that it no longer needs. Pure.

slurmdbd.conf contains the database password, so it is written to a Secret and nowhere else.
"""

from typing import Any, NamedTuple

import msgspec

from slinky.api.accounting import Accounting
from slinky.api.names import wellknown
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS
from slinky.operator.accounting import objects
from slinky.operator.build.pod_parts import DaemonHashes, Images, digest_value, digest_values
from slinky.operator.framework.children import ChildrenPlan
from slinky.slurm import conf


class AccountingInputs(NamedTuple):
    """What the plan of an Accounting is computed from, besides the Accounting itself."""

    slurm_key: str = ""  # digest of the mounted slurm keys
    jwt_key: bytes = b""
    jwks: str = ""  # JWKS document with further keys
    password: str = ""
    image: str = ""  # of slurmdbd, if it is not that of the spec
    version: str = ""  # of slurmdbd in the image
    is_stopped: bool = False  # by an outage


def plan(accounting: Accounting, inputs: AccountingInputs, images: Images) -> ChildrenPlan:
    """Return the children of an Accounting."""
    if accounting.spec.external:
        return ChildrenPlan(delete=_internal_children(accounting))
    files = {wellknown.SLURMDBD_CONF: slurmdbd_conf(accounting, inputs.password, jwks=bool(inputs.jwks))}
    files |= {wellknown.JWKS: inputs.jwks} if inputs.jwks else {}
    hashes = DaemonHashes(inputs.slurm_key, digest_value(inputs.jwt_key), digest_values(files))
    running = _with_image(accounting, inputs.image)
    workload = objects.stateful_set(running, tuple(files), hashes, images, inputs.version)
    if inputs.is_stopped:
        workload["spec"]["replicas"] = 0
    return ChildrenPlan(
        (
            (SERVICES, objects.service(accounting)),
            (SECRETS, objects.config_secret(accounting, files, hashes.config)),
            (STATEFUL_SETS, workload),
        )
    )


def _with_image(accounting: Accounting, image: str) -> Accounting:
    if not image:
        return accounting
    spec = msgspec.structs.replace(accounting.spec, slurmdbd={**accounting.spec.slurmdbd, "image": image})
    return msgspec.structs.replace(accounting, spec=spec)


def slurmdbd_conf(accounting: Accounting, password: str, *, jwks: bool = False) -> str:
    """Return slurmdbd.conf; `jwks` tells that there is a JWKS document beside it."""
    storage = accounting.spec.storage_config
    if storage is None:
        raise Blocked("StorageMissing", "slurmdbd needs a database; set storageConfig")
    parameters = [f"jwt_key={wellknown.ETC}/{wellknown.JWT_KEY}"] if accounting.spec.jwt_key else []
    if jwks:
        parameters.append(f"jwks={wellknown.ETC}/{wellknown.JWKS}")
    return conf.SlurmdbdConf(
        host=accounting.pod_name,
        storage_host=storage.host,
        storage_port=storage.port,
        storage_database=storage.database,
        storage_user=storage.username or "slurm",
        storage_password=password,
        auth_alt_parameters=tuple(parameters),
        log_file="/dev/null",
        extra=accounting.spec.extra_conf,
    ).render()


def _internal_children(accounting: Accounting) -> tuple[tuple[Resource[Any], Key], ...]:
    """Return the children that only a slurmdbd inside Kubernetes has."""
    namespace = accounting.metadata.namespace
    return (
        (STATEFUL_SETS, Key(namespace, accounting.workload_name)),
        (SERVICES, Key(namespace, accounting.service_name)),
        (SECRETS, Key(namespace, accounting.config_name)),
    )
