# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""LoginSet: login pods, where users log in with ssh and submit jobs."""

from typing import Annotated, Literal

from slinky.api.fields.conditions import HEALTH, ScaledStatus
from slinky.api.fields.refs import KeyRef, LocalRef
from slinky.api.fields.templates import Container, PodTemplate, Replicas, ServicePart, ServicePort
from slinky.api.names import wellknown
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, ScaleSubresource, definition, described, immutable
from slinky.kube.types import Key, Object, View


class DeploymentRolling(View, frozen=True):
    """How many pods a rolling update may add and remove at once."""

    max_surge: Annotated[
        int | str | None, described("Maximum number or percentage of pods in addition to replicas during an update.")
    ] = None
    max_unavailable: Annotated[
        int | str | None, described("Maximum number or percentage of pods that may be unavailable during an update.")
    ] = None


class DeploymentStrategy(View, frozen=True):
    """An apps/v1 DeploymentStrategy."""

    type: Annotated[
        Literal["Recreate", "RollingUpdate"] | None,
        described("Recreate deletes the old pods first; RollingUpdate replaces pods step by step."),
    ] = None
    rolling_update: Annotated[DeploymentRolling | None, described("Settings of the type RollingUpdate.")] = None


class LoginSetService(ServicePart, frozen=True):
    """Settings of the Service of sshd."""

    port: ServicePort = wellknown.SSH_PORT


class LoginSetSpec(View, frozen=True):
    """Desired state of a set of login pods."""

    controller_ref: Annotated[
        LocalRef,
        immutable("controllerRef"),
        described("Controller of the Slurm cluster to which the login pods belong."),
    ]
    sssd_conf_ref: Annotated[
        KeyRef, described("Secret key with sssd.conf, which configures where user accounts come from.")
    ]
    replicas: Annotated[Replicas, described("Number of login pods.")] = 1
    login: Annotated[
        Container, described("A core/v1 Container; its fields override those of the login container.")
    ] = {}
    initconf: Annotated[
        Container,
        described("A core/v1 Container; its fields override those of the container that prepares the configuration."),
    ] = {}
    template: Annotated[PodTemplate, described("Settings that override those of the pods.")] = PodTemplate()
    root_ssh_authorized_keys: Annotated[str, described("Public keys that may log in as root (authorized_keys).")] = ""
    extra_sshd_config: Annotated[str, described("Text appended to sshd_config.")] = ""
    strategy: Annotated[
        DeploymentStrategy, described("How the Deployment replaces pods (apps/v1 DeploymentStrategy).")
    ] = DeploymentStrategy()
    service: Annotated[LoginSetService, described("Settings of the Service of sshd.")] = LoginSetService()


class LoginSetStatus(ScaledStatus, frozen=True):
    """Observed state of a set of login pods."""


class LoginSet(Object, frozen=True):
    """A set of login pods."""

    spec: LoginSetSpec
    status: LoginSetStatus = LoginSetStatus()

    @property
    def controller_key(self) -> Key:
        """Key of the Controller that it refers to."""
        return Key(self.metadata.namespace, self.spec.controller_ref.name)

    @property
    def workload_name(self) -> str:
        """Name of the Deployment."""
        return self.metadata.name

    @property
    def service_name(self) -> str:
        """Name of the Service."""
        return self.metadata.name

    @property
    def ssh_config_name(self) -> str:
        """Name of the ConfigMap with sshd_config."""
        return f"{self.metadata.name}-ssh-config"

    @property
    def host_keys_name(self) -> str:
        """Name of the Secret with the ssh host keys."""
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
    description="A set of login pods with sackd, sshd and sssd, where users log in and submit jobs.",
    columns=[Column("REPLICAS", "integer", ".status.replicas"), *HEALTH, AGE],
    scale=ScaleSubresource(),
    short_names=["loginsets", "lss", "sackd"],
    categories=CATEGORIES,
)
