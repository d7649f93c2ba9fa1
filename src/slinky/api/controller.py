# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Controller: a Slurm cluster and its slurmctld."""

from typing import Annotated, Any

from msgspec import Meta

from slinky.api.fields.amounts import PrometheusDuration
from slinky.api.fields.conditions import HEALTH, ObjectStatus
from slinky.api.fields.outage import Outage, OutagePhase, OutageStatus
from slinky.api.fields.refs import DAEMON_RULES, DaemonKeyRefs, LocalRef
from slinky.api.fields.templates import (
    Container,
    ExternalHost,
    PersistentVolumeClaimSpec,
    PodTemplate,
    ServicePart,
    ServicePort,
)
from slinky.api.names import child_names, wellknown
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, default, definition, described, immutable, list_atomic, rule
from slinky.kube.types import Key, Object, View

#: Slurm's limit.
LONGEST_CLUSTER_NAME = 40

Refs = Annotated[tuple[LocalRef, ...], list_atomic()]


class HighAvailability(View, frozen=True):
    """High availability: standby slurmctld pods beside the active one."""

    enabled: Annotated[bool, described("Run standby controllers beside the active one.")] = False
    backups: Annotated[int, Meta(ge=1, le=16), described("Number of standby controllers.")] = 1


class Persistence(PersistentVolumeClaimSpec, frozen=True):
    """Where slurmctld stores its state. The other fields are those of a core/v1 PersistentVolumeClaimSpec."""

    enabled: Annotated[
        bool,
        immutable("persistence.enabled"),
        described("Store the state of slurmctld on a persistent volume; otherwise it is lost with the pod."),
    ] = True
    existing_claim: Annotated[
        str, default(""), described("Name of an existing claim to use; if empty, the operator creates a claim.")
    ] = ""

    __rules__ = (
        rule(
            "!self.enabled || self.existingClaim == oldSelf.existingClaim",
            "persistence.existingClaim is immutable while persistence is enabled",
        ),
    )

    def claim_spec(self) -> dict[str, Any]:
        """The spec of the claim, with defaults for the fields that are required."""
        return {**CLAIM_DEFAULTS, **super().claim_spec()}


#: A claim requires both fields; the chart has the same defaults.
CLAIM_DEFAULTS = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}


class MonitorEndpoint(View, frozen=True):
    """One path that Prometheus scrapes."""

    path: Annotated[str, Meta(min_length=1), described("HTTP path.")]
    interval: Annotated[PrometheusDuration, described("Time between two scrapes.")] = ""
    scrape_timeout: Annotated[PrometheusDuration, described("Timeout of one scrape.")] = ""


class ServiceMonitor(View, frozen=True):
    """A ServiceMonitor for the Prometheus operator, if the cluster has that kind."""

    enabled: Annotated[bool, described("Create the ServiceMonitor.")] = False
    labels: Annotated[dict[str, str], described("Labels of the ServiceMonitor.")] = {}
    annotations: Annotated[dict[str, str], described("Annotations of the ServiceMonitor.")] = {}
    interval: Annotated[PrometheusDuration, described("Time between two scrapes, for endpoints without their own.")] = (
        ""
    )
    scrape_timeout: Annotated[
        PrometheusDuration, described("Timeout of one scrape, for endpoints without their own.")
    ] = ""
    endpoints: Annotated[
        tuple[MonitorEndpoint, ...], list_atomic(), described("Paths to scrape; if empty, all metrics of slurmctld.")
    ] = ()


class Metrics(View, frozen=True):
    """Metrics that slurmctld itself exports."""

    enabled: Annotated[bool, described("Let slurmctld export metrics in the OpenMetrics format.")] = False
    service_monitor: Annotated[
        ServiceMonitor, described("ServiceMonitor for the Prometheus operator, if the cluster has that kind.")
    ] = ServiceMonitor()


class ControllerService(ServicePart, frozen=True):
    """Settings of the Service of slurmctld."""

    port: ServicePort = wellknown.SLURMCTLD_PORT


class ControllerSpec(DaemonKeyRefs, frozen=True):
    """Desired state of a Slurm cluster and its slurmctld."""

    __rules__ = (
        *DAEMON_RULES,
        rule(
            "!has(self.slurmKeyRef) || !has(oldSelf.slurmKeyRef) || self.slurmKeyRef.name == oldSelf.slurmKeyRef.name",
            "slurmKeyRef.name is immutable",
        ),
        rule(
            "!has(self.ha) || !self.ha.enabled || (has(self.persistence) && self.persistence.enabled"
            " && self.persistence.existingClaim != '')",
            "ha requires persistence.existingClaim, because all controllers share one volume",
        ),
    )

    cluster_name: Annotated[
        str,
        Meta(max_length=LONGEST_CLUSTER_NAME),
        immutable("clusterName"),
        described("Name of the cluster in Slurm; if unset, <namespace>_<name>."),
    ] = ""
    accounting_ref: Annotated[LocalRef | None, described("Accounting that records the jobs of this cluster.")] = None
    external: Annotated[
        bool, described("True if slurmctld runs outside of Kubernetes; the operator then does not run it.")
    ] = False
    external_config: Annotated[ExternalHost | None, described("Address of the external slurmctld.")] = None
    ha: Annotated[HighAvailability, described("High availability: standby controllers.")] = HighAvailability()
    slurmctld: Annotated[
        Container, described("A core/v1 Container; its fields override those of the slurmctld container.")
    ] = {}
    inplace_reconfigure: Annotated[
        bool,
        described(
            "Never replace the pod of slurmctld when its configuration changes, not even for settings that need a"
            " restart."
        ),
    ] = False
    reconfigure: Annotated[
        Container, described("A core/v1 Container; its fields override those of the reconfigure sidecar.")
    ] = {}
    logfile: Annotated[Container, described("A core/v1 Container; its fields override those of the log sidecar.")] = {}
    template: Annotated[PodTemplate, described("Settings that override those of the pod.")] = PodTemplate()
    extra_conf: Annotated[str, described("Text appended to slurm.conf.")] = ""
    config_file_refs: Annotated[Refs, described("ConfigMaps; each key becomes a file beside slurm.conf.")] = ()
    prolog_script_refs: Annotated[Refs, described("ConfigMaps; each key is a Prolog script.")] = ()
    epilog_script_refs: Annotated[Refs, described("ConfigMaps; each key is an Epilog script.")] = ()
    prolog_slurmctld_script_refs: Annotated[Refs, described("ConfigMaps; each key is a PrologSlurmctld script.")] = ()
    epilog_slurmctld_script_refs: Annotated[Refs, described("ConfigMaps; each key is an EpilogSlurmctld script.")] = ()
    persistence: Annotated[Persistence, described("Where slurmctld stores its state.")] = Persistence()
    service: Annotated[ControllerService, described("Settings of the Service of slurmctld.")] = ControllerService()
    metrics: Annotated[Metrics, described("Metrics that slurmctld itself exports.")] = Metrics()
    outage: Annotated[
        Outage | None, described("A planned outage of the whole cluster; remove it to end the outage early.")
    ] = None


class ControllerStatus(ObjectStatus, frozen=True):
    """Observed state of a Slurm cluster and its slurmctld."""

    wanted_config: Annotated[str, described("Generation of the configuration that belongs to the spec.")] = ""
    loaded_config: Annotated[str, described("Generation of the configuration that slurmctld reports it runs.")] = ""
    slurm_version: Annotated[
        str, described("Version of Slurm in the image that slurmctld runs, as slurmctld reports it.")
    ] = ""
    outage: Annotated[OutageStatus, described("The planned outage, or the last one.")] = OutageStatus()


class Controller(Object, frozen=True):
    """A Slurm cluster."""

    spec: ControllerSpec
    status: ControllerStatus = ControllerStatus()

    @property
    def cluster_name(self) -> str:
        """Name of the cluster in Slurm."""
        return self.spec.cluster_name or f"{self.metadata.namespace}_{self.metadata.name}"

    @property
    def workload_name(self) -> str:
        """Name of the StatefulSet and of the ServiceMonitor."""
        return f"{self.metadata.name}-controller"

    @property
    def service_name(self) -> str:
        """Name of the Service that clients use."""
        return self.workload_name

    @property
    def internal_service_name(self) -> str:
        """Name of the headless Service of the StatefulSet, which gives each controller pod a DNS name."""
        return f"{self.workload_name}-internal"

    @property
    def config_name(self) -> str:
        """Name of the ConfigMap with slurm.conf."""
        return f"{self.metadata.name}-config"

    @property
    def replicas(self) -> int:
        """Number of controller pods."""
        return 1 + self.spec.ha.backups if self.spec.ha.enabled else 1

    @property
    def pod_names(self) -> tuple[str, ...]:
        """Names of the controller pods, the primary first."""
        return tuple(f"{self.workload_name}-{index}" for index in range(self.replicas))

    def pod_address(self, pod: str) -> str:
        """DNS name of a controller pod."""
        return f"{pod}.{self.internal_service_name}.{self.metadata.namespace}"

    @property
    def port(self) -> int:
        """Port on which clients reach slurmctld."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.port
        return self.spec.service.port or wellknown.SLURMCTLD_PORT

    @property
    def host(self) -> str:
        """Host name on which clients reach slurmctld."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.host
        return child_names.short_address(self.service_name, self.metadata.namespace)

    @property
    def state_folder(self) -> str:
        """Mount path of the state volume."""
        return f"{wellknown.STATE}/{self.cluster_name}"

    @property
    def outage_phase(self) -> OutagePhase:
        """The present phase of an outage."""
        return OutagePhase.parse(self.status.outage.phase)

    @property
    def outage_reservation(self) -> str:
        """Name of the reservation that keeps jobs out of an outage."""
        return f"SlurmOperatorOutage-{self.metadata.name}"

    @property
    def accounting_key(self) -> Key | None:
        """Key of the Accounting that it refers to."""
        ref = self.spec.accounting_ref
        return Key(self.metadata.namespace, ref.name) if ref else None

    @property
    def worker_service_name(self) -> str:
        """Name of the headless Service that all its workers share."""
        return child_names.worker_service(self.metadata.name)

    @property
    def worker_budget_name(self) -> str:
        """Name of the PodDisruptionBudget that all its workers share."""
        return child_names.worker_budget(self.metadata.name)


CONTROLLERS = Resource(API_VERSION, "Controller", "controllers", Controller)

DEFINITION = definition(
    GROUP,
    VERSION,
    "Controller",
    "controllers",
    spec=ControllerSpec,
    status=ControllerStatus,
    description="A Slurm cluster and its slurmctld.",
    columns=[*HEALTH, Column("CONFIG", "string", ".status.loadedConfig", wide=True), AGE],
    short_names=["slurmctld"],
    categories=CATEGORIES,
)
