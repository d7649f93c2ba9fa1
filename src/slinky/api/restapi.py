# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""RestApi: slurmrestd, through which the operator and other clients use Slurm."""

from typing import Annotated

from slinky.api.fields.conditions import HEALTH, ScaledStatus
from slinky.api.fields.refs import LocalRef
from slinky.api.fields.templates import Container, PodTemplate, Replicas, ServicePart, ServicePort
from slinky.api.names import child_names, wellknown
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, ScaleSubresource, definition, described
from slinky.kube.types import Key, Object, View


class RestApiService(ServicePart, frozen=True):
    """Settings of the Service of slurmrestd."""

    port: ServicePort = wellknown.SLURMRESTD_PORT


class RestApiSpec(View, frozen=True):
    """Desired state of Slurm's REST API."""

    controller_ref: Annotated[LocalRef, described("Controller of the Slurm cluster that this REST API serves.")]
    replicas: Annotated[Replicas, described("Number of slurmrestd pods.")] = 1
    slurmrestd: Annotated[
        Container, described("A core/v1 Container; its fields override those of the slurmrestd container.")
    ] = {}
    template: Annotated[PodTemplate, described("Settings that override those of the pods.")] = PodTemplate()
    service: Annotated[RestApiService, described("Settings of the Service of slurmrestd.")] = RestApiService()


class RestApiStatus(ScaledStatus, frozen=True):
    """Observed state of Slurm's REST API."""


class RestApi(Object, frozen=True):
    """Slurm's REST API."""

    spec: RestApiSpec
    status: RestApiStatus = RestApiStatus()

    @property
    def controller_key(self) -> Key:
        """Key of the Controller that it refers to."""
        return Key(self.metadata.namespace, self.spec.controller_ref.name)

    @property
    def workload_name(self) -> str:
        """Name of the Deployment."""
        return f"{self.metadata.name}-restapi"

    @property
    def service_name(self) -> str:
        """Name of the Service."""
        return self.workload_name

    @property
    def port(self) -> int:
        """Port of the Service."""
        return self.spec.service.port or wellknown.SLURMRESTD_PORT

    @property
    def url(self) -> str:
        """URL of the REST API inside the Kubernetes cluster."""
        return f"http://{child_names.short_address(self.service_name, self.metadata.namespace)}:{self.port}"


REST_APIS = Resource(API_VERSION, "RestApi", "restapis", RestApi)

DEFINITION = definition(
    GROUP,
    VERSION,
    "RestApi",
    "restapis",
    spec=RestApiSpec,
    status=RestApiStatus,
    description="The REST API of a Slurm cluster, served by slurmrestd.",
    columns=[*HEALTH, AGE],
    scale=ScaleSubresource(),
    short_names=["slurmrestd"],
    categories=CATEGORIES,
)
