# SPDX-License-Identifier: Apache-2.0
"""slurmdbd.conf. Pure. The text holds the database password, so it goes into a Secret and nowhere else."""

from slinky.api.accounting import Accounting
from slinky.api.names import wellknown
from slinky.kube.errors import Blocked
from slinky.slurm import conf


def slurmdbd_conf(of: Accounting, password: str, *, jwks: bool = False) -> str:
    """The file that slurmdbd reads; `jwks` says that there is a document of keys beside it."""
    storage = of.spec.storage_config
    if storage is None:
        raise Blocked("StorageMissing", "set storageConfig: slurmdbd needs a database")
    parameters = [f"jwt_key={wellknown.ETC}/{wellknown.JWT_KEY}"] if of.spec.jwt_key else []
    if jwks:
        parameters.append(f"jwks={wellknown.ETC}/{wellknown.JWKS}")
    return conf.SlurmdbdConf(
        host=of.pod_name,
        storage_host=storage.host,
        storage_port=storage.port,
        storage_database=storage.database,
        storage_user=storage.username or "slurm",
        storage_password=password,
        auth_alt_parameters=tuple(parameters),
        log_file="/dev/null",
        extra=of.spec.extra_conf,
    ).render()
