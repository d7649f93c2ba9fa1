# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Accounting: slurmdbd, which records jobs in a database."""

from typing import Annotated

from msgspec import Meta

from slinky.api.fields.conditions import HEALTH, ObjectStatus
from slinky.api.fields.refs import DAEMON_RULES, DaemonKeyRefs, KeyRef
from slinky.api.fields.templates import Container, ExternalHost, PodTemplate, ServicePart, ServicePort
from slinky.api.names import child_names, wellknown
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, definition, described, rule
from slinky.kube.types import Object, View


class AccountingStorage(View, frozen=True):
    """Connection to the MySQL or MariaDB database."""

    host: Annotated[str, Meta(min_length=1, max_length=253), described("Host name or address of the database.")]
    password_key_ref: Annotated[KeyRef, described("Secret key with the password.")]
    port: Annotated[int, Meta(ge=1, le=65535), described("TCP port of the database.")] = wellknown.MYSQL_PORT
    database: Annotated[str, Meta(max_length=64), described("Name of the database.")] = "slurm_acct_db"
    username: Annotated[str, Meta(max_length=80), described("User name for the database.")] = ""


class AccountingService(ServicePart, frozen=True):
    """Settings of the Service of slurmdbd."""

    port: ServicePort = wellknown.SLURMDBD_PORT


class AccountingBackup(View, frozen=True):
    """The backup of the database that is made before slurmdbd is upgraded to another release."""

    claim_name: Annotated[
        str, Meta(max_length=253), described("Existing PersistentVolumeClaim that the backup is written to.")
    ] = ""
    image: Annotated[
        str, described("Image with mariadb-dump or mysqldump; if unset, docker.io/library/mariadb:11.8.")
    ] = ""
    skip: Annotated[bool, described("Upgrade slurmdbd without a backup, because you have made one.")] = False


class AccountingSpec(DaemonKeyRefs, frozen=True):
    """Desired state of Slurm's accounting."""

    __rules__ = (
        *DAEMON_RULES,
        rule("self.external || has(self.storageConfig)", "storageConfig is required unless external"),
    )

    external: Annotated[
        bool, described("True if slurmdbd runs outside of Kubernetes; the operator then does not run it.")
    ] = False
    external_config: Annotated[ExternalHost | None, described("Address of the external slurmdbd.")] = None
    slurmdbd: Annotated[
        Container, described("A core/v1 Container; its fields override those of the slurmdbd container.")
    ] = {}
    template: Annotated[PodTemplate, described("Settings that override those of the pod.")] = PodTemplate()
    storage_config: Annotated[
        AccountingStorage | None, described("Connection to the MySQL or MariaDB database; required unless external.")
    ] = None
    extra_conf: Annotated[str, described("Text appended to slurmdbd.conf.")] = ""
    service: Annotated[AccountingService, described("Settings of the Service of slurmdbd.")] = AccountingService()
    backup: Annotated[
        AccountingBackup, described("Backup of the database before slurmdbd is upgraded to another release.")
    ] = AccountingBackup()


class AccountingStatus(ObjectStatus, frozen=True):
    """Observed state of Slurm's accounting."""

    slurm_version: Annotated[
        str, described("Version of Slurm in the image that slurmdbd runs, as slurmdbd reports it.")
    ] = ""


class Accounting(Object, frozen=True):
    """Slurm's accounting."""

    spec: AccountingSpec
    status: AccountingStatus = AccountingStatus()

    @property
    def workload_name(self) -> str:
        """Name of the StatefulSet."""
        return f"{self.metadata.name}-accounting"

    @property
    def service_name(self) -> str:
        """Name of the Service."""
        return self.workload_name

    @property
    def config_name(self) -> str:
        """Name of the Secret with slurmdbd.conf; it is a Secret because it contains the database password."""
        return self.workload_name

    @property
    def pod_name(self) -> str:
        """Name of the only pod, which is Slurm's DbdHost."""
        return f"{self.workload_name}-0"

    @property
    def host(self) -> str:
        """Host name on which slurmctld reaches slurmdbd."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.host
        return child_names.short_address(self.service_name, self.metadata.namespace)

    @property
    def port(self) -> int:
        """Port on which slurmctld reaches slurmdbd."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.port
        return self.spec.service.port or wellknown.SLURMDBD_PORT


ACCOUNTINGS = Resource(API_VERSION, "Accounting", "accountings", Accounting)

DEFINITION = definition(
    GROUP,
    VERSION,
    "Accounting",
    "accountings",
    spec=AccountingSpec,
    status=AccountingStatus,
    description="Slurm's accounting: a slurmdbd that records jobs in a database.",
    columns=[*HEALTH, AGE],
    short_names=["slurmdbd"],
    categories=CATEGORIES,
)
