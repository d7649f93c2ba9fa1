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


class RestApiTls(View, frozen=True):
    """Settings of the container that terminates TLS in front of slurmrestd."""

    enabled: Annotated[
        bool,
        described(
            "Serve https with a certificate of the operator; clients find the certificate authority in the ConfigMap "
            "<name>-restapi-ca."
        ),
    ] = False
    required: Annotated[bool, described("Refuse clients without TLS, which are served at the same port otherwise.")] = (
        False
    )
    proxy: Annotated[
        Container, described("A core/v1 Container; its fields override those of the container tls-proxy.")
    ] = {}


class RestApiSpec(View, frozen=True):
    """Desired state of Slurm's REST API."""

    controller_ref: Annotated[LocalRef, described("Controller of the Slurm cluster that this REST API serves.")]
    replicas: Annotated[Replicas, described("Number of slurmrestd pods.")] = 1
    slurmrestd: Annotated[
        Container, described("A core/v1 Container; its fields override those of the slurmrestd container.")
    ] = {}
    template: Annotated[PodTemplate, described("Settings that override those of the pods.")] = PodTemplate()
    service: Annotated[RestApiService, described("Settings of the Service of slurmrestd.")] = RestApiService()
    tls: Annotated[RestApiTls, described("TLS between clients and slurmrestd.")] = RestApiTls()


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
    def tls_secret_name(self) -> str:
        """Name of the Secret with the certificate and its authorities."""
        return f"{self.workload_name}-tls"

    @property
    def ca_config_name(self) -> str:
        """Name of the ConfigMap with the certificates of the authorities, for clients."""
        return f"{self.workload_name}-ca"

    @property
    def scheme(self) -> str:
        """Scheme of the URL."""
        return "https" if self.spec.tls.enabled else "http"

    @property
    def host(self) -> str:
        """DNS name of the Service inside the Kubernetes cluster."""
        return child_names.short_address(self.service_name, self.metadata.namespace)

    @property
    def port(self) -> int:
        """Port of the Service."""
        return self.spec.service.port or wellknown.SLURMRESTD_PORT

    @property
    def url(self) -> str:
        """URL of the REST API inside the Kubernetes cluster."""
        return f"{self.scheme}://{self.host}:{self.port}"


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
