# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Controller: one Slurm cluster, by its slurmctld."""

from typing import Annotated, Any

from msgspec import Meta

from slinky.api.fields.conditions import HEALTH, ObjectStatus
from slinky.api.fields.durations import PrometheusDuration
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
from slinky.api.names.group import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, default, definition, described, immutable, list_atomic, rule
from slinky.kube.types import Key, Object, View

#: Slurm's own limit.
LONGEST_CLUSTER_NAME = 40

Refs = Annotated[tuple[LocalRef, ...], list_atomic()]


class HighAvailability(View, frozen=True):
    """Slurm's own active and standby controllers."""

    enabled: Annotated[bool, described("Run standby controllers beside the active one.")] = False
    backups: Annotated[int, Meta(ge=1, le=16), described("How many standby controllers.")] = 1


class Persistence(PersistentVolumeClaimSpec, frozen=True):
    """Where slurmctld keeps its state; the other fields are those of a PersistentVolumeClaimSpec."""

    enabled: Annotated[
        bool, immutable("persistence.enabled"), described("Keep the state on a volume; otherwise it dies with the pod.")
    ] = True
    existing_claim: Annotated[str, default(""), described("Use this claim instead of making one.")] = ""

    __rules__ = (
        rule(
            "!self.enabled || self.existingClaim == oldSelf.existingClaim",
            "persistence.existingClaim is immutable while persistence is enabled",
        ),
    )

    def claim_spec(self) -> dict[str, Any]:
        """As it goes into the claim; what nobody said is what a cluster of usual size needs."""
        return {**USUAL_CLAIM, **super().claim_spec()}


#: A claim needs both; the chart has the same.
USUAL_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}


class MonitorEndpoint(View, frozen=True):
    """One path to scrape."""

    path: Annotated[str, Meta(min_length=1), described("HTTP path.")]
    interval: PrometheusDuration = ""
    scrape_timeout: PrometheusDuration = ""


class ServiceMonitor(View, frozen=True):
    """The ServiceMonitor for Prometheus, where that kind is served."""

    enabled: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    interval: PrometheusDuration = ""
    scrape_timeout: PrometheusDuration = ""
    endpoints: Annotated[tuple[MonitorEndpoint, ...], list_atomic(), described("The usual paths if empty.")] = ()


class Metrics(View, frozen=True):
    """Slurm's own metrics."""

    enabled: Annotated[bool, described("Let slurmctld serve OpenMetrics.")] = False
    service_monitor: ServiceMonitor = ServiceMonitor()


class ControllerService(ServicePart, frozen=True):
    """The Service in front of slurmctld."""

    port: ServicePort = wellknown.SLURMCTLD_PORT


class ControllerSpec(DaemonKeyRefs, frozen=True):
    """Desired state of a Slurm cluster's controller."""

    __rules__ = (
        *DAEMON_RULES,
        rule(
            "!has(self.slurmKeyRef) || !has(oldSelf.slurmKeyRef) || self.slurmKeyRef.name == oldSelf.slurmKeyRef.name",
            "slurmKeyRef.name is immutable",
        ),
        rule(
            "!has(self.ha) || !self.ha.enabled || (has(self.persistence) && self.persistence.enabled"
            " && self.persistence.existingClaim != '')",
            "ha needs persistence.existingClaim: all controllers share one volume",
        ),
    )

    cluster_name: Annotated[
        str,
        Meta(max_length=LONGEST_CLUSTER_NAME),
        immutable("clusterName"),
        described("Name of the cluster in Slurm; <namespace>_<name> if unset."),
    ] = ""
    accounting_ref: Annotated[LocalRef | None, described("The Accounting this cluster reports to.")] = None
    external: Annotated[bool, described("slurmctld runs outside of Kubernetes.")] = False
    external_config: Annotated[ExternalHost | None, described("Where it runs, if external.")] = None
    ha: Annotated[HighAvailability, described("Standby controllers.")] = HighAvailability()
    slurmctld: Annotated[Container, described("Merged over the slurmctld container.")] = {}
    inplace_reconfigure: Annotated[
        bool, described("Apply a changed configuration to the running slurmctld instead of replacing its pod.")
    ] = False
    reconfigure: Annotated[Container, described("Merged over the reconfigure sidecar.")] = {}
    logfile: Annotated[Container, described("Merged over the log sidecar.")] = {}
    template: Annotated[PodTemplate, described("Merged over the pod.")] = PodTemplate()
    extra_conf: Annotated[str, described("Text appended to slurm.conf.")] = ""
    config_file_refs: Annotated[Refs, described("ConfigMaps whose keys become files beside slurm.conf.")] = ()
    prolog_script_refs: Annotated[Refs, described("ConfigMaps; each key is a Prolog script.")] = ()
    epilog_script_refs: Annotated[Refs, described("ConfigMaps; each key is an Epilog script.")] = ()
    prolog_slurmctld_script_refs: Annotated[Refs, described("ConfigMaps; each key is a PrologSlurmctld script.")] = ()
    epilog_slurmctld_script_refs: Annotated[Refs, described("ConfigMaps; each key is an EpilogSlurmctld script.")] = ()
    persistence: Annotated[Persistence, described("Where the state is kept.")] = Persistence()
    service: Annotated[ControllerService, described("The Service.")] = ControllerService()
    metrics: Annotated[Metrics, described("Slurm's own metrics.")] = Metrics()


class ControllerStatus(ObjectStatus, frozen=True):
    """Observed state of a Slurm cluster's controller."""

    wanted_config: Annotated[str, described("Generation of the configuration that the spec asks for.")] = ""
    loaded_config: Annotated[str, described("Generation that slurmctld itself says it runs.")] = ""


class Controller(Object, frozen=True):
    """A Slurm cluster."""

    spec: ControllerSpec
    status: ControllerStatus = ControllerStatus()

    @property
    def cluster_name(self) -> str:
        """The name in Slurm."""
        return self.spec.cluster_name or f"{self.metadata.namespace}_{self.metadata.name}"

    @property
    def workload_name(self) -> str:
        """The StatefulSet; also the ServiceMonitor."""
        return f"{self.metadata.name}-controller"

    @property
    def service_name(self) -> str:
        """The Service others call."""
        return self.workload_name

    @property
    def internal_service_name(self) -> str:
        """The headless Service that gives each controller pod a name; the StatefulSet's own."""
        return f"{self.workload_name}-internal"

    @property
    def config_name(self) -> str:
        """The ConfigMap with slurm.conf."""
        return f"{self.metadata.name}-config"

    @property
    def replicas(self) -> int:
        """How many controller pods."""
        return 1 + self.spec.ha.backups if self.spec.ha.enabled else 1

    @property
    def pod_names(self) -> tuple[str, ...]:
        """The controller pods, the primary first."""
        return tuple(f"{self.workload_name}-{index}" for index in range(self.replicas))

    def pod_address(self, pod: str) -> str:
        """A controller pod by the name other pods can call."""
        return f"{pod}.{self.internal_service_name}.{self.metadata.namespace}"

    @property
    def port(self) -> int:
        """Where clients reach slurmctld."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.port
        return self.spec.service.port or wellknown.SLURMCTLD_PORT

    @property
    def host(self) -> str:
        """The name clients call."""
        if self.spec.external and self.spec.external_config:
            return self.spec.external_config.host
        return child_names.short_address(self.service_name, self.metadata.namespace)

    @property
    def state_folder(self) -> str:
        """Where the state volume is mounted."""
        return f"{wellknown.STATE}/{self.cluster_name}"

    @property
    def accounting_key(self) -> Key | None:
        """The Accounting it refers to."""
        ref = self.spec.accounting_ref
        return Key(self.metadata.namespace, ref.name) if ref else None

    @property
    def worker_service_name(self) -> str:
        """The headless Service that all its workers share."""
        return child_names.worker_service(self.metadata.name)

    @property
    def worker_budget_name(self) -> str:
        """The disruption budget that all its workers share."""
        return child_names.worker_budget(self.metadata.name)


CONTROLLERS = Resource(API_VERSION, "Controller", "controllers", Controller)

DEFINITION = definition(
    GROUP,
    VERSION,
    "Controller",
    "controllers",
    spec=ControllerSpec,
    status=ControllerStatus,
    description="A Slurm cluster, by its slurmctld.",
    columns=[*HEALTH, Column("CONFIG", "string", ".status.loadedConfig", wide=True), AGE],
    short_names=["slurmctld"],
    categories=CATEGORIES,
)
