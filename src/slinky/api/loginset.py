# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""LoginSet: hosts where people log in and submit jobs."""

from typing import Annotated, Literal

from slinky.api.fields.conditions import HEALTH, ScaledStatus
from slinky.api.fields.refs import KeyRef, LocalRef
from slinky.api.fields.templates import Container, PodTemplate, Replicas, ServicePart, ServicePort
from slinky.api.names import wellknown
from slinky.api.names.group import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, Scaled, definition, described, immutable
from slinky.kube.types import Key, Object, View


class DeploymentRolling(View, frozen=True):
    """How many pods a rolling update may add and take."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(View, frozen=True):
    """An apps/v1 DeploymentStrategy."""

    type: Literal["Recreate", "RollingUpdate"] | None = None
    rolling_update: DeploymentRolling | None = None


class LoginSetService(ServicePart, frozen=True):
    """The Service in front of sshd."""

    port: ServicePort = wellknown.SSH_PORT


class LoginSetSpec(View, frozen=True):
    """Desired state of a set of login hosts."""

    controller_ref: Annotated[LocalRef, immutable("controllerRef"), described("The Controller it belongs to.")]
    sssd_conf_ref: Annotated[KeyRef, described("Secret key with sssd.conf, which says who people are.")]
    replicas: Annotated[Replicas, described("How many pods.")] = 1
    login: Annotated[Container, described("Merged over the login container.")] = {}
    initconf: Annotated[Container, described("Merged over the container that prepares the configuration.")] = {}
    template: Annotated[PodTemplate, described("Merged over the pod.")] = PodTemplate()
    root_ssh_authorized_keys: Annotated[str, described("authorized_keys of root.")] = ""
    extra_sshd_config: Annotated[str, described("Text appended to sshd_config.")] = ""
    strategy: Annotated[DeploymentStrategy, described("How the Deployment replaces pods.")] = DeploymentStrategy()
    service: Annotated[LoginSetService, described("The Service.")] = LoginSetService()


class LoginSetStatus(ScaledStatus, frozen=True):
    """Observed state of a set of login hosts."""


class LoginSet(Object, frozen=True):
    """A set of login hosts."""

    spec: LoginSetSpec
    status: LoginSetStatus = LoginSetStatus()

    @property
    def controller_key(self) -> Key:
        """The Controller it refers to."""
        return Key(self.metadata.namespace, self.spec.controller_ref.name)

    @property
    def workload_name(self) -> str:
        """The Deployment."""
        return self.metadata.name

    @property
    def service_name(self) -> str:
        """The Service."""
        return self.metadata.name

    @property
    def ssh_config_name(self) -> str:
        """The ConfigMap with sshd_config."""
        return f"{self.metadata.name}-ssh-config"

    @property
    def host_keys_name(self) -> str:
        """The Secret with the host keys."""
        return f"{self.metadata.name}-ssh-host-keys"

    @property
    def port(self) -> int:
        """Port of the Service."""
        return self.spec.service.port or wellknown.SSH_PORT


LOGIN_SETS = Resource(API_VERSION, "LoginSet", "loginsets", LoginSet)

DEFINITION = definition(
    GROUP,
    VERSION,
    "LoginSet",
    "loginsets",
    spec=LoginSetSpec,
    status=LoginSetStatus,
    description="A set of hosts where people log in: sackd, sshd and sssd.",
    columns=[Column("REPLICAS", "integer", ".status.replicas"), *HEALTH, AGE],
    scale=Scaled(),
    short_names=["loginsets", "lss", "sackd"],
    categories=CATEGORIES,
)
